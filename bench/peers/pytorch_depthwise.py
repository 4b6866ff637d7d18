#!/usr/bin/env python3
"""Times depthwise convolutions and their gradients in PyTorch on one core, the peer of `go run ./bench -only depthwise`.

    python3 bench/peers/pytorch_depthwise.py 56 16 3 2  28 64 3 1

takes pixels a side, channels, kernel and stride of each layer, with four images a time and padding as SAME has it, and
prints one line of JSON: seconds of the forward, of the input's gradient and of the weight's, of each layer. Of the two
layouts of images, and with oneDNN and without, the fastest counts.
"""

import itertools
import json
import sys
import time

import torch

FILL = 0.05  # seconds of each measurement
TRIAL = 0.01  # of each variant, before


def seconds(f, fill):
    """The time of one call."""
    f()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < fill:
        for _ in range(8):
            f()
        calls += 8
    return (time.perf_counter() - start) / calls


def parts(size, channels, side, stride, layout):
    """The forward and both gradients of a layer, as functions."""
    out = -(-size // stride)
    padding = max((out - 1) * stride + side - size, 0)
    # SAME pads one more after than before where it is odd; that is PyTorch's with one more row and column of the image.
    size += padding % 2
    x = torch.randn(4, channels, size, size).to(memory_format=layout)
    w = torch.randn(channels, 1, side, side)
    before = [padding // 2] * 2
    y = torch.conv2d(x, w, None, stride, before, 1, channels)
    assert y.shape[2] == out, (y.shape, out)
    dy = torch.randn_like(y).to(memory_format=layout)

    def gradients(mask):
        return torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, before, [1, 1], False, [0, 0], channels, mask)

    return [lambda: torch.conv2d(x, w, None, stride, before, 1, channels),
            lambda: gradients([True, False, False]), lambda: gradients([False, True, False])]


def best(layer, part):
    ways = []
    for layout, onednn in itertools.product([torch.contiguous_format, torch.channels_last], [True, False]):
        with torch.backends.mkldnn.flags(enabled=onednn):
            f = parts(*layer, layout)[part]
            ways.append((seconds(f, TRIAL), layout, onednn))
    _, layout, onednn = min(ways, key=lambda way: way[0])
    with torch.backends.mkldnn.flags(enabled=onednn):
        return seconds(parts(*layer, layout)[part], FILL)


def main():
    torch.set_num_threads(1)
    numbers = [int(n) for n in sys.argv[1:]]
    layers = [numbers[i:i + 4] for i in range(0, len(numbers), 4)]
    with torch.no_grad():
        table = [[best(layer, part) for part in range(3)] for layer in layers]
    print(json.dumps({"seconds": table, "version": f"PyTorch {torch.__version__}"}))


if __name__ == "__main__":
    main()
