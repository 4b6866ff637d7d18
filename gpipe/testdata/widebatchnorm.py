#!/usr/bin/env python3
"""Makes widebatchnorm.json and scopebatchnorm.json with PyTorch: gradients of a network with batch norm whose statistics
are those of the micro-batches of several replicas together, computed in float64 in one process.

    python3 gpipe/testdata/widebatchnorm.py

widebatchnorm.json: three replicas together, with 3, 3 and 2 of the 8 examples. scopebatchnorm.json: eight replicas with 3,
3, 3, 3, 2, 2, 2 and 2 of the 20 examples, of which 2, 4 or 8 consecutive ones are together. With M = 2 each is cut again,
and the micro-batches with the same number of replicas that are together are normalised together. The format, and how
numbers are written, is that of nn/testdata/oracle.py.
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

SIZE, CHANNELS, CLASSES, EPS, MOMENTUM = 6, 8, 5, 1e-5, 0.9
# Examples that are normalised together, by the name of the case.
WIDE = {"m1/": [[0, 1, 2, 3, 4, 5, 6, 7]], "m2/": [[0, 1, 3, 4, 6], [2, 5, 7]]}
SCOPES = {
    "n2/m1/": [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]],
    "n4/m1/": [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 15, 16, 17, 18, 19]],
    "n8/m1/": [list(range(20))],
    "n2/m2/": [[0, 1, 3, 4], [2, 5], [6, 7, 9, 10], [8, 11], [12, 14], [13, 15], [16, 18], [17, 19]],
    "n4/m2/": [[0, 1, 3, 4, 6, 7, 9, 10], [2, 5, 8, 11], [12, 14, 16, 18], [13, 15, 17, 19]],
    "n8/m2/": [[0, 1, 3, 4, 6, 7, 9, 10, 12, 14, 16, 18], [2, 5, 8, 11, 13, 15, 17, 19]],
}


def write(name, seed, examples, cases):
    rng = random.Random(seed)
    x = oracle.grid(rng, examples, SIZE, SIZE, 3)
    labels = torch.tensor([rng.randrange(CLASSES) for _ in range(examples)])
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
    for prefix, parts in cases.items():
        assert sorted(sum(parts, [])) == list(range(examples))
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
            loss = loss + F.cross_entropy(logits, labels[part], reduction="sum") / examples
        loss.backward()
        tensors[prefix + "loss"] = loss.reshape(1)
        for key, t in w.items():
            tensors[prefix + "grad/" + key] = t.grad
        for key, values in seen.items():  # the averages move by the whole mini-batch
            y = torch.cat(values)
            tensors[prefix + key + "/moving_mean"] = (1 - MOMENTUM) * y.mean((0, 2, 3))
            tensors[prefix + key + "/moving_variance"] = MOMENTUM + (1 - MOMENTUM) * y.var((0, 2, 3), unbiased=False)
    oracle.write(name, {"eps": EPS, "momentum": MOMENTUM}, tensors)


write("widebatchnorm.json", 16, 8, WIDE)
write("scopebatchnorm.json", 20, 20, SCOPES)
