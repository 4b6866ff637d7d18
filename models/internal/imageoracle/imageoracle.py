"""The common part of the image models' oracle scripts: tensors from a formula, images in TensorFlow's and
PyTorch's paddings, GPipe's batch norm, and the files.

Nothing that a test can compute by itself is stored: inputs, weights and output gradients come from the formula in
tensor(), which package imageoracle has as well. Of a large tensor only a digest is stored, see digest().

Images are (N, H, W, C) and convolutions' weights (KH, KW, in, out) in tests. Everything is computed
in float64 on one thread, so the files are the same, byte for byte, on every run.
"""

import json
import math
import os

import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1
NOISE = 1e-14  # float64's own rounding around an exact zero, written as 0


def mix(x):
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def integers(name, count, n):
    """count integers in [0, n) that the name determines (FNV-1a)."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return [(mix((h + i) & MASK) >> 11) % n for i in range(count)]


def tensor(name, shape, limit, around=0):
    """Multiples of 1/256, uniform from around-limit to around+limit."""
    r = round(256 * limit)
    data = [around + (k - r) / 256 for k in integers(name, math.prod(shape), 2 * r + 1)]
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


def parameter(path, shape):
    """A parameter's value: weights as in He et al., all others near their usual initial value, but not equal to it."""
    kind = path.rsplit("/", 1)[-1]
    if kind == "weight":
        return tensor(path, shape, math.sqrt(6 / math.prod(shape[:-1])))
    return tensor(path, shape, 0.25, 1 if kind in ("gamma", "moving_variance") else 0)


class Run:
    """A network's parameters, and the inputs of its batch norms in a mini-batch."""

    def __init__(self, seed, eps, dtype=torch.float64):
        self.seed, self.eps, self.dtype = seed, eps, dtype
        self.params = {}  # leaves, in the order of their first use
        self.moving = {}
        self.seen = {}  # by batch norm, its inputs of every micro-batch
        self.kinks = []  # distances of ReLUs' inputs and max pools' maxima from a change of choice; exact zeros and ties do not change

    def param(self, path, *shape):
        if path not in self.params:
            self.params[path] = parameter("%d/%s" % (self.seed, path), shape).to(self.dtype).requires_grad_()
        return self.params[path]

    def relu(self, x):
        away = x.detach().abs()
        self.kinks.append(away[away > 0].min().item())
        return F.relu(x)

    def conv(self, x, path, kernel, out, stride=1, pad="same"):
        """pad is "same", or the pixels at the top, bottom, left and right."""
        kh, kw = kernel
        w = self.param(path + "/weight", kh, kw, x.shape[1], out).permute(3, 2, 0, 1)
        return F.conv2d(padded(x, kernel, stride, pad), w, stride=stride)

    def depthwise(self, x, path, size, stride=1, dilation=1):
        """Each channel with its own kernel of size x size, padded as "same" for the pixels that its taps span."""
        w = self.param(path + "/weight", size, size, x.shape[1]).permute(2, 0, 1)[:, None]
        span = (size - 1) * dilation + 1
        return F.conv2d(padded(x, (span, span), stride, "same"), w, stride=stride, dilation=dilation, groups=x.shape[1])

    def norm(self, x, path, relu=False):
        """Normalised by the micro-batch's own statistics."""
        c = x.shape[1]
        self.seen.setdefault(path, []).append(x.detach())
        y = F.batch_norm(x, None, None, self.param(path + "/gamma", c), self.param(path + "/beta", c), True, 0, self.eps)
        return self.relu(y) if relu else y

    def max_pool(self, x, size, stride, pad="same"):
        x = padded(x, (size, size), stride, pad, -math.inf)
        windows = F.unfold(x.detach().clamp(min=-1e30), size, stride=stride).reshape(x.shape[0], x.shape[1], size * size, -1)
        best = windows.topk(2, dim=2).values
        gap = best[:, :, 0] - best[:, :, 1]
        self.kinks.append(gap[gap > 0].min().item() if (gap > 0).any() else 1)
        return F.max_pool2d(x, size, stride)

    def dense(self, x, path, out):
        return x @ self.param(path + "/weight", x.shape[1], out) + self.param(path + "/bias", out)

    def move(self, momentum):
        """One update of every moving average, by the whole mini-batch: not by any micro-batch."""
        for path, parts in self.seen.items():
            x = torch.cat(parts)
            c = x.shape[1]
            for kind, of in (("mean", x.mean((0, 2, 3))), ("variance", x.var((0, 2, 3), unbiased=True))):
                name = "%s/moving_%s" % (path, kind)
                if name not in self.moving:
                    self.moving[name] = parameter("%d/%s" % (self.seed, name), [c]).to(self.dtype)
                self.moving[name] = momentum * self.moving[name] + (1 - momentum) * of
        self.seen = {}


def padded(x, kernel, stride, pad, value=0.0):
    if pad == "same":
        edges = []
        for size, k in zip(x.shape[2:], kernel):
            total = max((-(-size // stride) - 1) * stride + k - size, 0)
            edges += [total // 2, total - total // 2]
        pad = edges
    top, bottom, left, right = pad
    return F.pad(x, (left, right, top, bottom), value=value)


def images(run, name, *shape):
    """Images (N, H, W, C) from the formula, as PyTorch needs them: (N, C, H, W)."""
    return tensor("%d/%s" % (run.seed, name), shape, 2).to(run.dtype).permute(0, 3, 1, 2)


def outwards(x):
    """Channels last, as in tests."""
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def digest(name, x):
    """[largest magnitude, sum of magnitudes, product with a tensor from the formula, up to four elements]."""
    x = x.detach().double().flatten()
    probe = tensor("probe/" + name, x.shape, 1)
    n = len(x)
    at = sorted({k * n // 4 for k in range(4)})
    return torch.cat([torch.stack([x.abs().max(), x.abs().sum(), x @ probe]), x[at]])


def write(script, name, config, tensors):
    def number(v):
        return 0.0 if abs(v) < NOISE else float("%.7g" % v)

    lines = []
    for key, t in tensors.items():
        t = torch.as_tensor(t).detach()
        value = json.dumps({"shape": list(t.shape), "data": [number(v) for v in t.flatten().tolist()]}, separators=(",", ":"), allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), value))
    here = os.path.dirname(os.path.abspath(script))
    relative = os.path.relpath(os.path.abspath(script), os.path.join(here, "..", "..", ".."))
    head = {"torch": torch.__version__, "script": relative, "config": config}
    path = os.path.join(here, name)
    with open(path, "w") as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "tensors": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n")
    print("%8d %s" % (os.path.getsize(path), name))


def layer(run, forward, inputs):
    """A single layer: digests of its outputs for inputs (N, H, W, C) by name, of all gradients, given those of
    its outputs from the formula, and of the moving averages after this micro-batch."""
    xs = [images(run, name, *shape).requires_grad_() for name, shape in inputs.items()]
    outs = forward(run, *xs)
    tensors = {}
    total = 0
    for i, y in enumerate(outs):
        y = outwards(y)
        tensors["out%d" % i] = digest("out%d" % i, y)
        total = total + (y * tensor("%d/dout%d" % (run.seed, i), y.shape, 1)).sum()
    total.backward()
    for i, x in enumerate(xs):
        if x.grad is not None:
            tensors["din%d" % i] = digest("din%d" % i, outwards(x.grad))
    for path, p in run.params.items():
        tensors["grad/" + path] = digest("grad/" + path, p.grad)
    run.move(0.75)
    for path, m in run.moving.items():
        tensors[path] = digest(path, m)
    return tensors


def training(run, loss, image, classes, batches, lr, momentum):
    """Two mini-batches, each of micro-batches of the given sizes, with a step of SGD after each. The gradients are
    those of the first. loss(run, images, labels) is the sum over a micro-batch's examples."""
    n = sum(batches)
    tensors, losses, kink = {}, [], 0
    for step in range(2):
        x = images(run, "images%d" % step, n, *image)
        labels = torch.tensor(integers("%d/labels%d" % (run.seed, step), n, classes))
        first, total = 0, 0
        for size in batches:
            part = loss(run, x[first:first + size], labels[first:first + size]) / n
            part.backward()
            total, first = total + part.item(), first + size
        losses.append(total)
        run.move(momentum)
        if step == 0:
            kink = min(run.kinks)
            for path, p in run.params.items():
                tensors["grad/" + path] = digest("grad/" + path, p.grad)
        with torch.no_grad():
            for p in run.params.values():
                p -= lr * p.grad
                p.grad = None
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    for path, m in run.moving.items():
        tensors[path] = digest(path, m)
    return tensors, kink


def strays(exact, single):
    """The largest errors of a run in float32 against that in float64, by kind of tensor and in the units of a test: a
    gradient's elements in those of its pipeline layer's largest gradient, any other's in those of its tensor's, and a
    product with the formula in as many of them as the tensor has elements on average."""
    worst = {}
    for key, a in exact.items():
        b, kind = single[key].double(), key.split("/")[0]
        if key == "losses":
            e = ((a - b) / a).abs().max()
        else:
            unit = max(t[0] for k, t in exact.items() if k.startswith(scope(key))) if kind == "grad" else a[0]
            e = max(((a - b)[3:] / unit).abs().max(), ((a - b)[2] / (a[1] * unit / a[0])).abs())
        worst[kind] = max(worst.get(kind, (0, "")), (e.item(), key))
    return worst


def scope(key):
    """grad/stage1/block1/ of grad/stage1/block1/conv1/weight, grad/normal1/ of any in that layer."""
    parts = key.split("/")
    return "/".join(parts[:3 if parts[1].startswith("stage") else 2]) + "/"
