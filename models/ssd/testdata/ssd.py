#!/usr/bin/env python3
"""Makes layers.json and training.json with PyTorch: layers of SSD, and two training steps of a small one.

    python3 models/ssd/testdata/ssd.py

A second implementation of the definition, after MLPerf's reference (mlcommons/training, single_stage_detector/ssd:
ssd300.py, and torchvision's basic block); see models/internal/imageoracle/imageoracle.py for the conventions.

    python3 models/ssd/testdata/ssd.py --search

writes nothing and prints seeds with which no ReLU or max pool changes its choice in float32.

    python3 models/ssd/testdata/ssd.py --float32

writes nothing and prints the errors of the same runs in float32, for choosing a test's tolerance.
"""

import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "internal", "imageoracle"))
from imageoracle import Run, layer, strays, training, write  # noqa: E402

EPS = 1e-5
WIDTH, CLASSES, IMAGE = 4, 5, [34, 34, 3]
BATCHES, LR, MOMENTUM = [3, 2], 0.002, 0.75


def conv_bn(run, x, path, kernel, out, stride, relu):
    p = kernel // 2
    return run.norm(run.conv(x, path, (kernel, kernel), out, stride, [p, p, p, p]), path, relu)


def basic(name, width, stride):
    def forward(run, x):
        h = conv_bn(run, x, name + "/conv1", 3, width, stride, True)
        h = conv_bn(run, h, name + "/conv2", 3, width, 1, False)
        if stride > 1 or x.shape[1] != width:
            x = conv_bn(run, x, name + "/shortcut", 1, width, stride, False)
        return (run.relu(h + x),)

    return forward


def biased(run, x, path, kernel, out, stride, pad):
    y = run.conv(x, path, (kernel, kernel), out, stride, [pad, pad, pad, pad])
    return y + run.param(path + "/bias", out)[:, None, None]


def heads(name, boxes):
    def forward(run, x):
        return biased(run, x, name + "/classes", 3, boxes * CLASSES, 1, 1), biased(run, x, name + "/box", 3, boxes * 4, 1, 1), x

    return forward


def grown(name, boxes, squeeze, channels, stride):
    """A further map: stride 1 pads nothing."""
    def forward(run, x):
        x = run.relu(biased(run, x, name + "/squeeze", 1, squeeze, 1, 0))
        x = run.relu(biased(run, x, name + "/conv", 3, channels, stride, 1 if stride > 1 else 0))
        return heads(name, boxes)(run, x)

    return forward


def loss(run, x, labels):
    w = WIDTH
    x = run.max_pool(conv_bn(run, x, "stem/conv", 7, w, 2, True), 3, 2, [1, 1, 1, 1])
    for stage, (blocks, stride) in enumerate([(3, 1), (4, 2), (6, 1)]):
        for i in range(blocks):
            x, = basic("stage%d/block%d" % (stage + 1, i + 1), w << stage, stride if i == 0 else 1)(run, x)
    maps = [heads("map1", 4)]  # of 5 pixels; the others have 3, 2 and 1, and a fifth would need 3
    for i, (squeeze, channels, boxes) in enumerate([(4, 8, 6), (4, 8, 6), (2, 4, 6)]):
        maps.append(grown("map%d" % (i + 2), boxes, squeeze * w, channels * w, 2))
    scores, offsets = [], []
    for f in maps:
        s, o, x = f(run, x)
        scores.append(s.permute(0, 2, 3, 1).reshape(x.shape[0], -1, CLASSES))
        offsets.append(o.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
    mean = torch.cat(scores, 1).mean(1)
    still = torch.cat(offsets, 1).pow(2).mean((1, 2)).sum() / 2
    return F.cross_entropy(mean, labels, reduction="sum") + still


# Single layers: seed, function, and the shape of the input.
N = 3
CASES = {
    "stage1/block1": (12, basic("stage1/block1", 4, 1), [N, 5, 5, 4]),
    "stage2/block1": (7, basic("stage2/block1", 8, 2), [N, 7, 7, 4]),
    "stage3/block1": (24, basic("stage3/block1", 16, 1), [N, 4, 4, 8]),
    "map1": (1, heads("map1", 4), [N, 5, 5, 16]),
    "map2": (22, grown("map2", 6, 16, 32, 2), [N, 5, 5, 16]),
    "map5": (27, grown("map5", 4, 8, 16, 1), [N, 5, 5, 16]),
}
TRAINING_SEED = 52


def train(seed, dtype=torch.float64):
    return training(Run(seed, EPS, dtype), loss, IMAGE, CLASSES, BATCHES, LR, MOMENTUM)


def cases(dtype=torch.float64):
    return {name: layer(Run(seed, EPS, dtype), forward, {"x": shape}) for name, (seed, forward, shape) in CASES.items()}


def search():
    for name, (_, forward, shape) in CASES.items():
        found = []
        for seed in range(1, 30):
            run = Run(seed, EPS)
            layer(run, forward, {"x": shape})
            found.append((min(run.kinks, default=1), seed))
        print(name, sorted(found)[-3:])
    print("training", sorted((train(seed)[1], seed) for seed in range(1, 60))[-5:])


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--search"]:
        search()
    elif sys.argv[1:] == ["--float32"]:
        single = cases(torch.float32)
        for name, tensors in cases().items():
            print(name, strays(tensors, single[name]))
        print("training", strays(train(TRAINING_SEED)[0], train(TRAINING_SEED, torch.float32)[0]))
    elif sys.argv[1:]:
        sys.exit("ssd.py: unknown argument %r: none, --search or --float32" % sys.argv[1])
    else:
        model = {"width": WIDTH, "classes": CLASSES, "eps": EPS}
        config = dict(model, cases={name: {"seed": seed, "input": shape} for name, (seed, _, shape) in CASES.items()})
        write(__file__, "layers.json", config, {name + ":" + key: t for name, tensors in cases().items() for key, t in tensors.items()})
        config = dict(model, image=IMAGE[0], smoothing=0, batches=BATCHES, lr=LR, momentum=MOMENTUM, seed=TRAINING_SEED)
        write(__file__, "training.json", config, train(TRAINING_SEED)[0])
