"""ResNets and AmoebaNet-D in PyTorch, for pytorch.py: the same networks as ours, parameter by parameter.

Each function takes the flags and returns the module and a function from nothing to the loss of one forward pass. Modules
and parameters have the names of our weights' paths, so that saved weights can be loaded.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Conv(nn.Module):
    """A convolution without bias. Its kernel is (out, in, height, width)."""

    def __init__(self, inputs, outputs, kernel=(1, 1), stride=1):
        super().__init__()
        self.weight = nn.Parameter(nn.init.kaiming_normal_(torch.empty(outputs, inputs, *kernel)))
        self.stride, self.padding = stride, (kernel[0] // 2, kernel[1] // 2)

    def forward(self, x):
        return F.conv2d(x, self.weight, None, self.stride, self.padding)


class Norm(nn.Module):
    """Batch norm. PyTorch's share of the moving averages is that of the new value."""

    eps, momentum = 1e-5, 0.1

    def __init__(self, channels):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("moving_mean", torch.zeros(channels))
        self.register_buffer("moving_variance", torch.ones(channels))

    def norm(self, x):
        return F.batch_norm(x, self.moving_mean, self.moving_variance, self.gamma, self.beta, True, self.momentum, self.eps)


class Unit(Norm):
    """A convolution, batch norm, and where told ReLU, in place: no backward reads what it overwrites."""

    def __init__(self, inputs, outputs, kernel=(1, 1), stride=1, relu=False, eps=Norm.eps):
        super().__init__(outputs)
        conv = Conv(inputs, outputs, kernel, stride)
        self.weight, self.conv, self.relu, self.eps = conv.weight, (conv.stride, conv.padding), relu, eps

    def forward(self, x):
        y = self.norm(F.conv2d(x, self.weight, None, *self.conv))
        return y.relu_() if self.relu else y


# ResNets, as torchvision's "v1.5": the stride of a block is in its 3x3 convolution.

class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = Unit(inputs, width, relu=True)
        self.conv2 = Unit(width, width, (3, 3), stride, relu=True)
        self.conv3 = Unit(width, 4 * width)
        if stride > 1 or inputs != 4 * width:
            self.shortcut = Unit(inputs, 4 * width, stride=stride)

    def forward(self, x):
        y = self.conv3(self.conv2(self.conv1(x)))
        y += self.shortcut(x) if hasattr(self, "shortcut") else x
        return y.relu_()


def resnet(args, counts):
    layers = nn.ModuleDict({"stem": nn.ModuleDict({"conv": Unit(3, 64, (7, 7), 2, relu=True)})})
    channels = 64
    for stage, blocks in enumerate(counts):
        for i in range(blocks):
            width = 64 << stage
            layers["stage%d/block%d" % (stage + 1, i + 1)] = Bottleneck(channels, width, 2 if stage and not i else 1)
            channels = 4 * width
    layers["classifier"] = nn.Linear(channels, args.classes)

    def forward(x):
        x = F.max_pool2d(layers["stem"]["conv"](x), 3, 2, 1)
        for name, block in layers.items():
            if name.startswith("stage"):
                x = block(x)
        return layers["classifier"](x.mean((2, 3)))

    return with_images(args, layers, forward, mirrored=False)


def resnet50(args):
    return resnet(args, (3, 4, 6, 3))


def resnet101(args):
    return resnet(args, (3, 4, 23, 3))


# AmoebaNet-D(L, D), with the cells as TensorFlow's official code and torchgpipe have them.
#
# TensorFlow's SAME pads an even image with one pixel less at the top and on the left where the stride is 2; PyTorch pads
# alike on both sides, or by a copy. Mirrored, both are one: the images and the kernels are turned by half a circle, and
# every convolution and pool has what its mirror image has, at no cost.

def unit(*args, **kwargs):
    return Unit(*args, eps=1e-3, **kwargs)


class Chain(nn.ModuleDict):
    def forward(self, x):
        for part in self.values():
            x = part(x)
        return x


def chain(inputs, filters, kernels, stride=1):
    """1x1 to a quarter of the filters, the kernels, 1x1 to all."""
    q = filters // 4
    parts = Chain({"in": unit(inputs, q, relu=True)})
    for h, w in kernels:
        parts["%dx%d" % (h, w)] = unit(q, q, (h, w), stride, relu=True)
    parts["out"] = unit(q, filters)
    return parts


class Factorized(Norm):
    """Two 1x1 convolutions of stride 2 to half of the channels each, the second on the image shifted by a pixel."""

    eps = 1e-3

    def __init__(self, inputs, outputs):
        super().__init__(outputs)
        self.path1, self.path2 = Conv(inputs, outputs // 2, stride=2), Conv(inputs, outputs // 2, stride=2)

    def forward(self, x):  # mirrored, it is the first that is shifted
        return self.norm(torch.cat((self.path1(x[:, :, 1:, 1:]), self.path2(x)), 1))


def max_pool(x, size, stride):
    return F.max_pool2d(x, size, stride, size // 2 if size % 2 else 0)


def avg_pool(x):
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class Cell(nn.Module):
    """What both kinds have: h0 of the newest output s1, and h1 of the one before, s2."""

    def __init__(self, newest, before, filters, reduced):
        super().__init__()
        self.h0 = unit(newest, filters)
        self.h1 = Factorized(before, filters) if reduced else unit(before, filters) if before != filters else None

    def begin(self, s1, s2):
        r1 = F.relu(s1)
        h0 = self.h0(r1)
        if self.h1 is None:
            return h0, s2
        return h0, self.h1(r1 if s2 is s1 else F.relu(s2))

    def part(self, name, module):
        self.add_module(name, module)


class Normal(Cell):
    def __init__(self, newest, before, filters, reduced):
        super().__init__(newest, before, filters, reduced)
        long = [(1, 7), (7, 1)]
        self.part("h2", nn.ModuleDict({"1x1": unit(filters, filters)}))
        self.part("h3", nn.ModuleDict({"1x7_7x1": chain(filters, filters, long)}))
        self.part("h4", nn.ModuleDict({"1x1": unit(filters, filters), "1x7_7x1": chain(filters, filters, long)}))
        self.part("h6", nn.ModuleDict({"1x1": unit(filters, filters)}))

    def forward(self, s1, s2):
        h0, h1 = self.begin(s1, s2)
        r0 = F.relu(h0)
        h2 = self.h2["1x1"](F.relu(h1)).add_(max_pool(h1, 3, 1))
        h3 = self.h3["1x7_7x1"](r0).add_(h1)
        h4 = self.h4["1x1"](r0).add_(self.h4["1x7_7x1"](r0))
        h5 = max_pool(h2, 3, 1).add_(h2)
        h6 = self.h6["1x1"](F.relu(h5)).add_(avg_pool(h1))
        return torch.cat((h0, h3, h4, h6), 1)


class Reduction(Cell):
    def __init__(self, newest, before, filters, reduced):
        super().__init__(newest, before, filters, reduced)
        inputs = before if self.h1 is None else filters
        self.part("h3", nn.ModuleDict({"3x3": chain(inputs, filters, [(3, 3)], 2)}))
        self.part("h4", nn.ModuleDict({"1x7_7x1": chain(filters, filters, [(1, 7), (7, 1)])}))
        self.part("h6", nn.ModuleDict({"1x1": unit(filters, filters)}))

    def forward(self, s1, s2):
        h0, h1 = self.begin(s1, s2)
        h2 = max_pool(h0, 2, 2).add_(max_pool(h0, 3, 2))
        h3 = self.h3["3x3"](F.relu(h1)).add_(h2)
        h4 = self.h4["1x7_7x1"](F.relu(h2)).add_(max_pool(h2, 3, 1))
        h5 = max_pool(h1, 2, 2).add_(h3)
        h6 = self.h6["1x1"](F.relu(h3)).add_(avg_pool(h2))
        return torch.cat((h4, h5, h6), 1)


def amoebanetd(args):
    if args.image % 32:
        raise SystemExit("pytorch.py: --image %d: amoebanetd wants a multiple of 32 here" % args.image)
    d = args.filters
    layers = nn.ModuleDict({"stem": nn.ModuleDict({"conv": unit(3, d // 4, (3, 3), 2)})})
    newest, before, reduced, count = d // 4, d // 4, False, {Normal: 0, Reduction: 0}

    def cell(kind, filters):
        nonlocal newest, before, reduced
        count[kind] += 1
        layers["%s%d" % (kind.__name__.lower(), count[kind])] = kind(newest, before, filters, reduced)
        newest, before, reduced = filters * (3 if kind is Reduction else 4), newest, kind is Reduction

    cell(Reduction, d // 2)
    cell(Reduction, d)
    for stack in range(3):
        if stack:
            cell(Reduction, d << stack)
        for _ in range(args.layers // 3):
            cell(Normal, d << stack)
    layers["classifier"] = nn.Linear(newest, args.classes)

    def forward(x):
        s1 = s2 = layers["stem"]["conv"](x)
        for layer in layers.values():
            if isinstance(layer, Cell):
                s1, s2 = layer(s1, s2), s1
        return layers["classifier"](s1.mean((2, 3)))

    return with_images(args, layers, forward, mirrored=True)


# What both have.

def with_images(args, model, forward, mirrored):
    """Images and targets are functions of their places, the same as in bench/networks.go. The model and the images get the
    memory format that the variant names."""
    shape = (args.batch, args.image, args.image, 3)
    place = torch.arange(args.batch * args.image * args.image * 3, dtype=torch.int64)
    images = ((place * 2654435761 % 2 ** 32).double() / 2 ** 31 - 1).float().reshape(shape)
    targets = torch.arange(args.batch) * 31 % args.classes
    if args.weights:
        load(model, args.weights, mirrored)
    if mirrored:
        images = images.flip(1, 2)
    layout = torch.channels_last if args.variant.endswith("-channels_last") else torch.contiguous_format
    images = images.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    model = model.to(memory_format=layout)
    return model, lambda: F.cross_entropy(forward(images), targets, label_smoothing=args.label_smoothing)


def load(model, path, mirrored):
    """Weights as `--save` writes them; ours are (height, width, in, out) and (in, out)."""
    from load_weights import read_safetensors

    tensors, _ = read_safetensors(path)
    for name, p in model.named_parameters():
        t = tensors.pop(name.replace(".", "/"))
        if t.dim() == 4:
            t = (t.flip(0, 1) if mirrored else t).permute(3, 2, 0, 1)
        elif t.dim() == 2:
            t = t.t()
        with torch.no_grad():
            p.copy_(t)
    left = [name for name in tensors if "/moving_" not in name]
    if left:
        raise SystemExit("pytorch.py: %s has weights that the model does not: %s" % (path, left[0]))
