#!/usr/bin/env python3
"""Makes cells.json, training.json and training_b.json with PyTorch: the cells of AmoebaNet-D and AmoebaNet-B, and two
training steps of a small network of each.

    python3 models/amoebanet/testdata/amoebanet.py

A second implementation of the definition, after tensorflow/tpu, models/official/amoeba_net, and torchgpipe,
benchmarks/models/amoebanet; see models/internal/imageoracle/imageoracle.py for the conventions.

    python3 models/amoebanet/testdata/amoebanet.py --search

writes nothing and prints seeds with which no ReLU or max pool changes its choice in float32.

    python3 models/amoebanet/testdata/amoebanet.py --float32

writes nothing and prints the errors of the same runs in float32, for choosing a test's tolerance.
"""

import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "internal", "imageoracle"))
from imageoracle import Run, layer, strays, training, write  # noqa: E402

EPS = 1e-3
SMOOTHING, AUX_WEIGHT = 0.1, 0.4
LAYERS, FILTERS, CLASSES, IMAGE, AUX_SCALE = 3, 16, 5, [36, 36, 3], 0.05
BATCHES, LR, MOMENTUM = [6, 4], 0.005, 0.75


def relu_conv_bn(run, x, path, kernel, out, stride=1):
    return run.norm(run.conv(run.relu(x), path, kernel, out, stride), path)


def one_by_one(run, x, path, out):
    return relu_conv_bn(run, x, path, (1, 1), out)


def chain(run, x, path, out, *kernels, stride=1):
    """A bottleneck: 1x1 to a quarter, the kernels there, 1x1 to all. The first kernel has the stride."""
    x = relu_conv_bn(run, x, path + "/in", (1, 1), out // 4)
    for kernel in kernels:
        x = relu_conv_bn(run, x, path + "/%dx%d" % kernel, kernel, out // 4, stride)
        stride = 1
    return relu_conv_bn(run, x, path + "/out", (1, 1), out)


def avg3x3(x):
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


def factorized(run, x, path, out, stride):
    x = run.relu(x)
    shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]  # (left, right, top, bottom)
    none = [0, 0, 0, 0]
    halves = [run.conv(x, path + "/path1", (1, 1), out // 2, stride, none), run.conv(shifted, path + "/path2", (1, 1), out // 2, stride, none)]
    return run.norm(torch.cat(halves, 1), path)


def begin(run, name, c, s1, s2, after_reduction, stride=1, as_it_is=False):
    h0 = relu_conv_bn(run, s1, name + "/h0", (1, 1), c, stride)
    if after_reduction:
        return h0, factorized(run, s2, name + "/h1", c, 2 * stride)
    if as_it_is or s2.shape[1] == c:
        return h0, s2
    return h0, relu_conv_bn(run, s2, name + "/h1", (1, 1), c, stride)


def normal(name, c, after_reduction, stride=1):
    def forward(run, s1, s2):
        h0, h1 = begin(run, name, c, s1, s2, after_reduction, stride)
        h2 = one_by_one(run, h1, name + "/h2/1x1", c) + run.max_pool(h1, 3, 1)
        h3 = h1 + chain(run, h0, name + "/h3/1x7_7x1", c, (1, 7), (7, 1))
        h4 = one_by_one(run, h0, name + "/h4/1x1", c) + chain(run, h0, name + "/h4/1x7_7x1", c, (1, 7), (7, 1))
        h5 = run.max_pool(h2, 3, 1) + h2
        h6 = avg3x3(h1) + one_by_one(run, h5, name + "/h6/1x1", c)
        return torch.cat([h0, h3, h4, h6], 1), s1

    return forward


def reduction(name, c, after_reduction, official=False):
    def forward(run, s1, s2=None):
        first = s2 is None
        h0, h1 = begin(run, name, c, s1, s1 if first else s2, after_reduction, as_it_is=official and first)
        h2 = run.max_pool(h0, 2, 2) + run.max_pool(h0, 3, 2)
        h3 = h2 + chain(run, h1, name + "/h3/3x3", c, (3, 3), stride=2)
        h4 = chain(run, h2, name + "/h4/1x7_7x1", c, (1, 7), (7, 1)) + run.max_pool(h2, 3, 1)
        pooled = run.max_pool(h1, 2, 2)
        if pooled.shape[1] != c:  # no ReLU before it
            pooled = run.norm(run.conv(pooled, name + "/h5/1x1", (1, 1), c), name + "/h5/1x1")
        h5 = h3 + pooled
        h6 = avg3x3(h2) + one_by_one(run, h3, name + "/h6/1x1", c)
        return torch.cat([h4, h5, h6], 1), s1

    return forward


def separable(run, x, path, out, size, stride=1, dilation=1):
    """Two separable convolutions, the first with the stride."""
    for part in (path + "/1", path + "/2"):
        x = run.depthwise(run.relu(x), part + "/depthwise", size, stride, dilation)
        x = run.norm(run.conv(x, part + "/pointwise", (1, 1), out), part)
        stride = 1
    return x


def normal_b(name, c, after_reduction):
    def forward(run, s1, s2):
        h0, h1 = begin(run, name, c, s1, s2, after_reduction)
        h2 = one_by_one(run, h1, name + "/h2/1x1", c) + run.max_pool(h1, 3, 1)
        h3 = h1 + separable(run, h0, name + "/h3/separable3x3", c, 3)
        h4 = one_by_one(run, h1, name + "/h4/1x1", c) + separable(run, h0, name + "/h4/separable3x3", c, 3)
        h5 = one_by_one(run, h2, name + "/h5/1x1", c) + h2
        h6 = avg3x3(h1) + one_by_one(run, h5, name + "/h6/1x1", c)
        return torch.cat([h0, h3, h4, h6], 1), s1

    return forward


def reduction_b(name, c, after_reduction):
    def forward(run, s1, s2=None):
        first = s2 is None
        h0, h1 = begin(run, name, c, s1, s1 if first else s2, after_reduction, as_it_is=first)
        h2 = run.max_pool(h0, 2, 2) + run.max_pool(h0, 3, 2)
        h3 = h2 + chain(run, h1, name + "/h3/3x3", c, (3, 3), stride=2)
        h4 = separable(run, h2, name + "/h4/separable5x5", c, 5, dilation=2) + run.max_pool(h2, 3, 1)
        h5 = h3 + separable(run, h1, name + "/h5/separable3x3", c, 3, stride=2)
        h6 = avg3x3(h4) + one_by_one(run, h3, name + "/h6/1x1", c)
        return torch.cat([h5, h6], 1), s1

    return forward


def stem(run, x, filters, official=False):
    pad = [0, 0, 0, 0] if official else "same"
    return (run.norm(run.conv(x, "stem/conv", (3, 3), filters, 2, pad), "stem/conv"),)


def official_classifier(run, s1, s2):
    return (run.dense(run.relu(s1).mean((2, 3)), "classifier", CLASSES),)


def auxiliary(run, x, name, classes):
    x = F.avg_pool2d(run.relu(x), min(5, x.shape[2]), 3)
    x = run.norm(run.conv(x, name + "/aux/proj", (1, 1), int(128 * AUX_SCALE)), name + "/aux/proj", True)
    x = run.norm(run.conv(x, name + "/aux/full", tuple(x.shape[2:]), int(768 * AUX_SCALE), 1, [0, 0, 0, 0]), name + "/aux/full", True)
    return run.dense(x.flatten(1), name + "/aux", classes)


def model(run, x, b=False):
    """The logits and the auxiliary ones, of AmoebaNet-D or of AmoebaNet-B, which has the official ends."""
    d = FILTERS
    normal_cell, reduction_cell = (normal_b, reduction_b) if b else (normal, reduction)
    s1 = stem(run, x, 32 if b else d // 4, b)[0]
    first = d // 4 if b else d // 2
    s1, s2 = reduction_cell("reduction1", first, False)(run, s1)
    s1, s2 = reduction_cell("reduction2", 2 * first, True)(run, s1, s2)
    after, normals, aux = True, 0, None
    for stack in range(3):
        if stack > 0:
            s1, s2 = reduction_cell("reduction%d" % (stack + 2), d << stack, after)(run, s1, s2)
            after = True
        for _ in range(LAYERS // 3):
            normals += 1
            s1, s2 = normal_cell("normal%d" % normals, d << stack, after)(run, s1, s2)
            after = False
        if stack == 1:
            aux = auxiliary(run, s1, "normal%d" % normals, CLASSES)
    return run.dense((run.relu(s1) if b else s1).mean((2, 3)), "classifier", CLASSES), aux


def loss(run, x, labels, b=False):
    main, aux = model(run, x, b)
    one = lambda logits: F.cross_entropy(logits, labels, reduction="sum", label_smoothing=SMOOTHING)  # noqa: E731
    return one(main) + AUX_WEIGHT * one(aux)


def loss_b(run, x, labels):
    return loss(run, x, labels, True)


# Single layers: seed, function, and the shapes of the inputs.
N = 3
CELLS = {
    # of (6, 16)
    "reduction1": (8, reduction("reduction1", 8, False), {"x": [N, 12, 12, 4]}),
    "reduction2": (3, reduction("reduction2", 16, True), {"s1": [N, 7, 7, 24], "s2": [N, 13, 13, 4]}),
    "normal1": (11, normal("normal1", 16, True), {"s1": [N, 5, 5, 48], "s2": [N, 9, 9, 24]}),
    "normal2": (11, normal("normal2", 16, False), {"s1": [N, 5, 5, 64], "s2": [N, 5, 5, 48]}),
    "reduction3": (27, reduction("reduction3", 32, False), {"s1": [N, 5, 5, 64], "s2": [N, 5, 5, 64]}),
    # the last cell with stride 2, of (6, 16) and of (3, 16)
    "delayed/normal6": (18, normal("normal6", 64, False, stride=2), {"s1": [N, 4, 4, 256], "s2": [N, 4, 4, 192]}),
    "delayed/normal3": (19, normal("normal3", 64, True, stride=2), {"s1": [N, 4, 4, 192], "s2": [N, 7, 7, 128]}),
    # the official ends, of (3, 32)
    "official/stem": (1, lambda run, x: stem(run, x, 32, True), {"x": [N, 16, 16, 3]}),
    "official/reduction1": (1, reduction("reduction1", 8, False, True), {"x": [N, 8, 8, 32]}),
    "official/classifier": (1, official_classifier, {"s1": [N, 2, 2, 512], "s2": [N, 2, 2, 384]}),
    # of AmoebaNet-B (6, 16)
    "b/reduction1": (23, reduction_b("reduction1", 4, False), {"x": [N, 12, 12, 32]}),
    "b/reduction2": (36, reduction_b("reduction2", 8, True), {"s1": [N, 7, 7, 8], "s2": [N, 13, 13, 32]}),
    "b/normal1": (28, normal_b("normal1", 16, True), {"s1": [N, 5, 5, 16], "s2": [N, 9, 9, 8]}),
    "b/normal2": (5, normal_b("normal2", 16, False), {"s1": [N, 5, 5, 64], "s2": [N, 5, 5, 16]}),
    "b/reduction3": (27, reduction_b("reduction3", 32, False), {"s1": [N, 5, 5, 64], "s2": [N, 5, 5, 64]}),
}
# By file: the loss and the seed.
TRAININGS = {"training.json": (loss, 34), "training_b.json": (loss_b, 58)}


def train(of, seed, dtype=torch.float64):
    return training(Run(seed, EPS, dtype), of, IMAGE, CLASSES, BATCHES, LR, MOMENTUM)


def cells(dtype=torch.float64):
    return {name: layer(Run(seed, EPS, dtype), forward, inputs) for name, (seed, forward, inputs) in CELLS.items()}


def search():
    for name, (_, forward, inputs) in CELLS.items():
        found = []
        for seed in range(1, 30):
            run = Run(seed, EPS)
            layer(run, forward, inputs)
            found.append((min(run.kinks, default=1), seed))
        print(name, sorted(found)[-3:])
    for name, (of, _) in TRAININGS.items():
        print(name, sorted((train(of, seed)[1], seed) for seed in range(1, 60))[-5:])


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--search"]:
        search()
    elif sys.argv[1:] == ["--float32"]:
        single = cells(torch.float32)
        for name, tensors in cells().items():
            print(name, strays(tensors, single[name]))
        for name, (of, seed) in TRAININGS.items():
            print(name, strays(train(of, seed)[0], train(of, seed, torch.float32)[0]))
    elif sys.argv[1:]:
        sys.exit("amoebanet.py: unknown argument %r: none, --search or --float32" % sys.argv[1])
    else:
        config = {"eps": EPS, "cells": {name: {"seed": seed, "inputs": list(inputs.values()), "names": list(inputs)}
                                        for name, (seed, _, inputs) in CELLS.items()}}
        write(__file__, "cells.json", config, {name + ":" + key: t for name, tensors in cells().items() for key, t in tensors.items()})
        for name, (of, seed) in TRAININGS.items():
            config = {"layers": LAYERS, "filters": FILTERS, "classes": CLASSES, "image": IMAGE[0], "aux_scale": AUX_SCALE, "eps": EPS,
                      "smoothing": SMOOTHING, "aux_weight": AUX_WEIGHT, "batches": BATCHES, "lr": LR, "momentum": MOMENTUM, "seed": seed}
            write(__file__, name, config, train(of, seed)[0])
