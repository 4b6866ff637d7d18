#!/usr/bin/env python3
"""Makes pipedream.json with numpy: the weights of small networks after 20 asynchronous updates.

    python3 gpipe/testdata/pipedream.py

It simulates the definitions of gpipe/schedule's Window in float64, one mini-batch after another: a stage's forward and
backward functions read the version of its weights that the definition names, and its update makes the version after
the newest. Nothing here knows an order of tasks. A version too old by one changes every network by more than 1e-2 of
its largest weight, which is checked.

Weights, inputs and targets are multiples of 1/1024 drawn by a linear congruential generator, which the test has too,
so the file has nothing but settings and results.
"""

import json
import os
import random

import numpy as np

UPDATES, CLASSES = 20, 5


class Draw:
    """The numbers of a seed: multiples of 1/1024 in [-1, 1), and whole numbers."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 16

    def grid(self, *shape):
        count = int(np.prod(shape))
        return np.array([(self.next() % 2048 - 1024) / 1024 for _ in range(count)]).reshape(shape)

    def whole(self, count, below):
        return np.array([self.next() % below for _ in range(count)])


def versions(net, t, stage):
    """The versions that mini-batch t reads forward and backward, and when its window began."""
    began = t - t % net["window"]
    stages = len(net["cut"])
    behind = {
        "pipedream": stages - 1 - stage,
        "pipedream-nostash": stages - 1 - stage,
        "pipedream-vertical": stages - 1,
        "pipedream-2bw": 1,
    }[net["schedule"]]
    forward = began + max(0, t - began - behind)
    return forward, t if net["schedule"] == "pipedream-nostash" else forward


def train(net, older=0):
    """The weights after all updates; older: every read is of a version older by so many, if there is one."""
    draw = Draw(net["seed"])
    widths = net["widths"]
    layers = len(widths) - 1
    stage_of = [s for s, n in enumerate(net["cut"]) for _ in range(n)]
    history = [[(draw.grid(widths[i], widths[i + 1]), draw.grid(widths[i + 1])) for i in range(layers)]]
    velocity = [(np.zeros_like(w), np.zeros_like(b)) for w, b in history[0]]
    for t in range(UPDATES):
        x = draw.grid(net["batch"], widths[0])
        target = draw.whole(net["batch"], CLASSES)
        kept = [x]
        for i in range(layers):
            version = max(0, versions(net, t, stage_of[i])[0] - older)
            w, b = history[version][i]
            x = x @ w + b
            if i < layers - 1:
                x = np.tanh(x)
            kept.append(x)
        p = np.exp(x - x.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(net["batch"]), target] -= 1
        grad = p / net["batch"]
        fresh = [None] * layers
        for i in reversed(range(layers)):
            if i < layers - 1:
                grad = grad * (1 - kept[i + 1] ** 2)
            version = max(0, versions(net, t, stage_of[i])[1] - older)
            gw, gb = kept[i].T @ grad, grad.sum(axis=0)
            grad = grad @ history[version][i][0].T
            vw, vb = velocity[i]
            vw, vb = net["momentum"] * vw + gw, net["momentum"] * vb + gb
            velocity[i] = (vw, vb)
            w, b = history[t][i]
            fresh[i] = (w - net["rate"] * vw, b - net["rate"] * vb)
        history.append(fresh)
    return history[-1]


def apart(a, b):
    return max(np.abs(x - y).max() / np.abs(x).max() for p, q in zip(a, b) for x, y in zip(p, q))


def draw_net(rng, schedule):
    stages = rng.randint(2, 4)
    cut = [rng.randint(1, 2) for _ in range(stages)]
    net = {
        "seed": rng.randrange(1, 2**31),
        "schedule": schedule,
        "window": rng.choice([4, 5, 10, 20]),
        "cut": cut,
        "widths": [rng.randint(3, 7) for _ in range(sum(cut))] + [CLASSES],
        "batch": rng.randint(4, 7),
        "micro": 1,
        "rate": 0.25,
        "momentum": rng.choice([0, 0.5]),
    }
    if schedule == "pipedream-2bw":
        net["micro"] = rng.randint(stages, net["batch"])
    return net


def main():
    rng = random.Random(41)
    nets = []
    names = ["pipedream", "pipedream-nostash", "pipedream-vertical", "pipedream-2bw"]
    while len(nets) < 20:
        net = draw_net(rng, names[len(nets) % 4])
        weights = train(net)
        if apart(weights, train(net, older=1)) < 1e-2:
            continue
        net["weights"] = [[float("%.9g" % v) for v in t.flatten()] for layer in weights for t in layer]
        nets.append(net)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pipedream.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(n, separators=(",", ":")) for n in nets) + "\n]\n")
    print("%d %s" % (os.path.getsize(path), path))


if __name__ == "__main__":
    main()
