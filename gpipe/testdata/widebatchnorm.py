#!/usr/bin/env python3
"""Makes widebatchnorm.json with PyTorch: gradients of a network with batch norm whose statistics are those of
the micro-batches of three replicas together, computed in float64 in one process.

    python3 gpipe/testdata/widebatchnorm.py

Replicas have 3, 3 and 2 of the 8 examples. With M = 2 each is cut again, and the micro-batches with the same number
of all replicas are normalised together. The format, and how numbers are written, is that of nn/testdata/oracle.py.
"""

import os
import random
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../nn/testdata"))
import oracle  # noqa: E402

oracle.HERE, oracle.SCRIPT = HERE, "gpipe/testdata/widebatchnorm.py"
torch.set_num_threads(1)

EXAMPLES, SIZE, CHANNELS, CLASSES, EPS, MOMENTUM = 8, 6, 8, 5, 1e-5, 0.9
TOGETHER = {1: [[0, 1, 2, 3, 4, 5, 6, 7]], 2: [[0, 1, 3, 4, 6], [2, 5, 7]]}

rng = random.Random(16)
x = oracle.grid(rng, EXAMPLES, SIZE, SIZE, 3)
labels = torch.tensor([rng.randrange(CLASSES) for _ in range(EXAMPLES)])
weights = {
    "a/conv/weight": oracle.grid(rng, 3, 3, 3, CHANNELS, std=0.3),  # rows, columns, channels in, channels out
    "a/norm/gamma": oracle.grid(rng, CHANNELS, std=0.3, mean=1),
    "a/norm/beta": oracle.grid(rng, CHANNELS, std=0.3),
    "b/conv/weight": oracle.grid(rng, 3, 3, CHANNELS, CHANNELS, std=0.2),
    "b/norm/gamma": oracle.grid(rng, CHANNELS, std=0.3, mean=1),
    "b/norm/beta": oracle.grid(rng, CHANNELS, std=0.3),
    "c/dense/weight": oracle.grid(rng, CHANNELS, CLASSES),
    "c/dense/bias": oracle.grid(rng, CLASSES),
}
tensors = {"x": x, "labels": labels, **weights}

for m, parts in TOGETHER.items():
    w = {name: t.clone().requires_grad_() for name, t in weights.items()}
    seen = {"a/norm": [], "b/norm": []}

    def layer(name, y, stride):
        y = F.conv2d(y, w[name + "/conv/weight"].permute(3, 2, 0, 1), stride=stride, padding=1)
        seen[name + "/norm"].append(y.detach())
        return F.relu(F.batch_norm(y, None, None, w[name + "/norm/gamma"], w[name + "/norm/beta"], training=True, eps=EPS))

    loss = 0
    for part in parts:
        y = layer("b", layer("a", x[part].permute(0, 3, 1, 2), 1), 2)
        logits = y.mean((2, 3)) @ w["c/dense/weight"] + w["c/dense/bias"]
        loss = loss + F.cross_entropy(logits, labels[part], reduction="sum") / EXAMPLES
    loss.backward()
    tensors["m%d/loss" % m] = loss.reshape(1)
    for name, t in w.items():
        tensors["m%d/grad/%s" % (m, name)] = t.grad
    for name, values in seen.items():  # the averages move by the whole mini-batch
        y = torch.cat(values)
        tensors["m%d/%s/moving_mean" % (m, name)] = (1 - MOMENTUM) * y.mean((0, 2, 3))
        tensors["m%d/%s/moving_variance" % (m, name)] = MOMENTUM + (1 - MOMENTUM) * y.var((0, 2, 3), unbiased=False)

oracle.write("widebatchnorm.json", {"eps": EPS, "momentum": MOMENTUM}, tensors)
