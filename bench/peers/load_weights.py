#!/usr/bin/env python3
"""Loads saved weights of a Transformer or ResNet into PyTorch and compares its logits, or its loss and gradients, with ours.

    python3 bench/peers/load_weights.py WEIGHTS RUN

WEIGHTS is a safetensors file, as `--save` writes it; the format is read here, no package is needed for it. RUN is JSON,
what went into the same network and what came out:

    {"inputs": [{"shape": [n, t], "data": [...]}, ...], "logits": {"shape": [n, t, vocab], "data": [...]}}

with inputs in the network's order: token ids for a transformer-lm and a llama; source ids, source lengths and target ids for a
transformer (encoder-decoder); images for a resnet50 and other ResNets with a stem of 7x7, whose logits are by the moving averages,
and whose gradients by the mini-batch's own statistics. In place of logits there may be what came out of a training step without dropout:

    "targets": {"shape": [n, t], "data": [...]}, "count": targets that are not -1, "smoothing": of labels,
    "loss": the mean over the count, "gradients": {path: {"shape": [...], "data": [...]}, ...}

PyTorch then computes those in float64, of the whole mini-batch at once, or with "autocast": true in float32 with its own
autocast to bfloat16, for a step with activations in bfloat16. Sizes are those of the tensors. What they do not
show comes from the file's metadata, whose "model" is JSON, or from the option of the same name: heads, and where they are
not the defaults activation (relu) and clip_logits (0); of a llama head_dim and rope_theta.

Prints the largest difference. Exit status: 0 if it is at most 1e-4 (of the loss and of each gradient as a whole: at most
2e-6 of its norm, of a ResNet 1e-5, with autocast eight times bfloat16's resolution of 2^-8), 1 if not or if something does
not fit, 2 for wrong usage, 3 where there is no PyTorch (on Debian: apt install python3-torch).
"""

import argparse
import hashlib
import json
import math
import re
import struct
import sys

NAME = "load_weights.py"
TOLERANCE = 1e-4
RELATIVE = 2e-6  # of losses and gradients
NORMED = 1e-5  # the same through batch norms (docs/wrong.md has PyTorch's own error in float32)
ROUNDED = 8 * 2**-8  # the same with autocast

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as e:
    print("%s: no PyTorch: %s" % (NAME, e), file=sys.stderr)
    sys.exit(3)


class Misfit(Exception):
    """Why a file cannot be used, in one line."""


# The format: https://github.com/huggingface/safetensors#format

def read_safetensors(path):
    """The tensors by name and the metadata."""
    if sys.byteorder != "little":
        raise Misfit("written little-endian, and this processor is not")
    with open(path, "rb") as f:
        blob = f.read()
    size = struct.unpack("<Q", blob[:8])[0] if len(blob) >= 8 else len(blob)
    if size > len(blob) - 8:
        raise Misfit("not safetensors, or truncated")
    header, data = json.loads(blob[8:8 + size], object_pairs_hook=without_repeats), blob[8 + size:]
    if not isinstance(header, dict):
        raise Misfit("not safetensors: the header is no object")
    metadata = header.pop("__metadata__", {})
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        if entry["dtype"] != "F32" or start != end or stop > len(data) or stop - start != 4 * math.prod(entry["shape"]):
            raise Misfit("tensor %s does not fit the file: %s" % (name, entry))
        tensors[name] = torch.frombuffer(bytearray(data[start:stop]), dtype=torch.float32).reshape(entry["shape"])
        end = stop
    if end != len(data):
        raise Misfit("%d bytes after the last tensor" % (len(data) - end))
    if metadata.get("weights_sha256", "") not in ("", hashlib.sha256(data).hexdigest()):
        raise Misfit("the values are not those that were saved: their SHA-256 is another")
    return tensors, metadata


def without_repeats(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Misfit("a name comes twice in the header")
    return found


# The models. Modules have the names that are in the tensors' paths.

class Attention(nn.Module):
    """Multi-head attention, to itself or to a memory. unseen broadcasts to (n, heads, queries, keys)."""

    def __init__(self, c, path, cross=False):
        super().__init__()
        dim, (self.inner, _) = c.dim, c.shape(path + "/out/weight")
        self.heads = c.heads
        if cross:
            self.q, self.kv = nn.Linear(dim, self.inner), nn.Linear(dim, 2 * self.inner)
        else:
            self.qkv = nn.Linear(dim, 3 * self.inner)
        self.out = nn.Linear(self.inner, dim)

    def forward(self, x, unseen, memory=None):
        if memory is None:
            q, k, v = self.qkv(x).split(self.inner, 2)
        else:
            q, (k, v) = self.q(x), self.kv(memory).split(self.inner, 2)
        q, k, v = (y.unflatten(2, (self.heads, self.inner // self.heads)).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        return self.out((scores.masked_fill(unseen, -math.inf).softmax(3) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c, path):
        super().__init__()
        _, hidden = c.shape(path + "/in/weight")
        self.add_module("in", nn.Linear(c.dim, hidden))
        self.out, self.activation = nn.Linear(hidden, c.dim), c.activation

    def forward(self, x):
        return self.out(self.activation(getattr(self, "in")(x)))


def embed(embedding, ids):
    time, dim = ids.shape[1], embedding.embedding_dim
    angle = (torch.arange(time, dtype=torch.float64)[:, None]
             / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    positions = torch.stack((angle.sin(), angle.cos()), 2).flatten(1)[:, :dim]
    return embedding(ids) * math.sqrt(dim) + positions.float()


def future(ids):
    return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)


class Softmax(nn.Linear):
    """Logits, of normalised states where the file has a norm."""

    def __init__(self, c):
        super().__init__(c.dim, *c.shape("softmax/bias"))
        self.norm = nn.LayerNorm(c.dim) if "softmax/norm/gamma" in c.tensors else nn.Identity()
        self.clip = c.clip

    def forward(self, x):
        return self.clip(super().forward(self.norm(x)))


class LanguageModel(nn.ModuleDict):
    """Pre-norm, causal. Before the softmax stands a norm, where the file has one."""

    tied = {"softmax/weight": "embedding/table"}

    def __init__(self, c):
        super().__init__({"embedding": nn.Embedding(*c.shape("embedding/table"))})
        self.layers = c.numbered("layer")
        for name in self.layers:
            self[name] = nn.ModuleDict({
                "norm1": nn.LayerNorm(c.dim), "attention": Attention(c, name + "/attention"),
                "norm2": nn.LayerNorm(c.dim), "feedforward": FeedForward(c, name + "/feedforward"),
            })
        self["softmax"] = Softmax(c)

    def forward(self, ids):  # (n, t)
        x = embed(self["embedding"], ids)
        for layer in map(self.__getitem__, self.layers):
            x = x + layer["attention"](layer["norm1"](x), future(ids))
            x = x + layer["feedforward"](layer["norm2"](x))
        return self["softmax"](x)


class Translation(nn.ModuleDict):
    """Encoder and decoder; pre-norm. Behind the encoder, and before the softmax, stands a norm, where the file has one."""

    tied = {"embedding/target/table": "embedding/source/table", "softmax/weight": "embedding/target/table"}

    def __init__(self, c):
        super().__init__({"embedding": nn.ModuleDict(
            {side: nn.Embedding(*c.shape("embedding/%s/table" % side)) for side in ("source", "target")})})
        self.encoders, self.decoders = c.numbered("encoder"), c.numbered("decoder")
        for name in self.encoders:
            self[name] = nn.ModuleDict({
                "attention": Attention(c, name + "/attention"),
                "feedforward": FeedForward(c, name + "/feedforward"),
            })
        for name in self.decoders:
            self[name] = nn.ModuleDict({
                "attention": Attention(c, name + "/attention"),
                "cross": Attention(c, name + "/cross", cross=True),
                "feedforward": FeedForward(c, name + "/feedforward"),
            })
        for name in self.encoders + self.decoders:
            for part in self[name].values():
                part.norm = nn.LayerNorm(c.dim)
        last = self.encoders[-1]
        if last + "/norm/gamma" in c.tensors:
            self[last]["norm"] = nn.LayerNorm(c.dim)
        self["softmax"] = Softmax(c)

    def forward(self, source, lengths, target):  # (n, s), (n), (n, t)
        padding = (torch.arange(source.shape[1])[None, :] >= lengths[:, None])[:, None, None, :]
        x, y = (embed(self["embedding"][side], ids) for side, ids in (("source", source), ("target", target)))

        def branch(part, x, *more):
            return x + part(part.norm(x), *more)

        for layer in map(self.__getitem__, self.encoders):
            x = branch(layer["attention"], x, padding)
            x = branch(layer["feedforward"], x)
            if "norm" in layer:
                x = layer["norm"](x)
        for layer in map(self.__getitem__, self.decoders):
            y = branch(layer["attention"], y, future(target))
            y = branch(layer["cross"], y, padding, x)
            y = branch(layer["feedforward"], y)
        return self["softmax"](y)


class Llama(nn.ModuleDict):
    """A file with the published names: RMS norms, rotary positions in halves, grouped-query attention, SwiGLU."""

    tied = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, c):
        super().__init__()
        self.width, self.theta = int(c.value("head_dim")), float(c.value("rope_theta"))
        for name, t in c.tensors.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(torch.empty_like(t)))

    def forward(self, ids):  # (n, t)
        def get(name):
            return getattr(self, name.replace(".", "/"))

        def norm(name, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * get(name)

        def heads(name, x):
            return F.linear(x, get(name)).unflatten(2, (-1, self.width)).transpose(1, 2)

        angle = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] / self.theta ** (
            torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        angle = torch.cat((angle, angle), 1)

        def rotated(x):
            first, second = x.chunk(2, 3)
            return x * angle.cos().to(x) + torch.cat((-second, first), 3) * angle.sin().to(x)

        x = F.embedding(ids, get("model.embed_tokens.weight"))
        layers = 1 + max(int(m[1]) for m in (re.match(r"model/layers/(\d+)/", name) for name, _ in self.named_parameters()) if m)
        for at in ("model.layers.%d." % i for i in range(layers)):
            h = norm(at + "input_layernorm.weight", x)
            q, k, v = (heads(at + "self_attn.%s_proj.weight" % which, h) for which in "qkv")
            q, k = rotated(q), rotated(k)
            k, v = (y.repeat_interleave(q.shape[1] // y.shape[1], 1) for y in (k, v))
            scores = (q @ k.transpose(2, 3) / math.sqrt(self.width)).masked_fill(future(ids), -math.inf)
            x = x + F.linear((scores.softmax(3) @ v).transpose(1, 2).flatten(2), get(at + "self_attn.o_proj.weight"))
            h = norm(at + "post_attention_layernorm.weight", x)
            h = F.silu(F.linear(h, get(at + "mlp.gate_proj.weight"))) * F.linear(h, get(at + "mlp.up_proj.weight"))
            x = x + F.linear(h, get(at + "mlp.down_proj.weight"))
        return F.linear(norm("model.norm.weight", x), get("lm_head.weight"))


class ResNet(nn.Module):
    """A stem of 7x7 and blocks of two or three convolutions, the first of which that is larger than 1x1 has the stride."""

    tied = {}

    def __init__(self, c):
        super().__init__()
        blocks = {re.match(r"stage(\d+)/block(\d+)/", name).groups() for name in c.tensors if name.startswith("stage")}
        self.blocks = sorted(blocks, key=lambda at: [int(i) for i in at])
        for name, t in c.tensors.items():
            if "/moving_" in name:
                self.register_buffer(name, torch.empty_like(t))
            else:
                self.register_parameter(name, nn.Parameter(torch.empty_like(t)))

    def forward(self, x):  # (n, h, w, c)
        def get(name):
            return getattr(self, name)

        def conv(name, x, stride=1):
            w = get(name + "/weight").permute(3, 2, 0, 1)
            y = F.conv2d(x, w, stride=stride, padding=w.shape[2] // 2)
            of = (get(name + "/" + which) for which in ("moving_mean", "moving_variance", "gamma", "beta"))
            return F.batch_norm(y, *of, self.training, 0, 1e-5)

        x = x.to(get("classifier/weight").dtype).permute(0, 3, 1, 2)
        x = F.max_pool2d(F.relu(conv("stem/conv", x, 2)), 3, 2, 1)
        for stage, block in self.blocks:
            at, y = "stage%s/block%s/" % (stage, block), x
            stride = 2 if stage != "1" and block == "1" else 1
            convs = [at + name for name in ("conv1", "conv2", "conv3") if hasattr(self, at + name + "/weight")]
            wide = next(name for name in convs if get(name + "/weight").shape[0] > 1)
            for name in convs:
                y = conv(name, y, stride if name == wide else 1)
                if name != convs[-1]:
                    y = F.relu(y)
            x = F.relu(y + (conv(at + "shortcut", x, stride) if hasattr(self, at + "shortcut/weight") else x))
        return x.mean((2, 3)) @ get("classifier/weight") + get("classifier/bias")


class Config:
    """What a model is built from: the file's tensors and what they do not show."""

    def __init__(self, tensors, metadata, args):
        self.tensors = dict(tensors)
        self.values = {**json.loads(metadata.get("model", "{}")), **{k: v for k, v in vars(args).items() if v is not None}}
        self.model = Translation if "embedding/source/table" in tensors else LanguageModel
        if "model.embed_tokens.weight" in tensors:
            self.model = Llama
        elif "stem/conv/weight" in tensors:
            self.model = ResNet
        for name, table in self.model.tied.items():
            if name not in tensors and table in self.tensors:
                self.tensors[name] = self.tensors[table]
        if self.model in (Llama, ResNet):
            return
        _, self.dim = self.shape("softmax/weight")
        self.heads = int(self.value("heads"))
        activations = {"relu": F.relu, "gelu": lambda x: F.gelu(x, approximate="tanh")}
        if self.value("activation", "relu") not in activations:
            raise Misfit("unknown activation %r: want relu or gelu" % self.value("activation"))
        self.activation = activations[self.value("activation", "relu")]
        limit = float(self.value("clip_logits", 0))
        self.clip = (lambda x: x.clamp(-limit, limit)) if limit else (lambda x: x)

    def value(self, key, default=None):
        value = self.values.get(key, default)
        if value is None:
            raise Misfit("the metadata's model has no %s: say --%s" % (key, key))
        return value

    def shape(self, name):
        if name not in self.tensors:
            raise Misfit("no tensor %s" % name)
        return self.tensors[name].shape

    def numbered(self, kind):
        """The names kind1, kind2, ... of layers. One that the numbers pass over is missed when its tensors are."""
        names = {name.split("/")[0] for name in self.tensors if re.match(kind + r"\d+/", name)}
        if not names:
            raise Misfit("no tensor of a %s1" % kind)
        return ["%s%d" % (kind, i + 1) for i in range(len(names))]

    def load(self):
        """The model with the file's values. Every tensor must have its place and every place its tensor."""
        model, state = self.model(self), {}
        for path, t in self.tensors.items():
            name, turned = place(path)
            state[name] = t.t() if turned else t
        try:
            model.load_state_dict(state)
        except RuntimeError as e:
            raise Misfit(" ".join(str(e).split()))
        return model.eval()


def place(path):
    """A tensor's name in the model, and whether it lies there transposed: ours are (in, out), PyTorch's (out, in)."""
    if "/" not in path:  # a published name
        return path.replace(".", "/"), False
    if re.match(r"stem/|stage\d|classifier/", path):  # of a ResNet, which reads them as they are
        return path, False
    *at, name = path.split("/")
    names = {"gamma": "weight", "beta": "bias", "table": "weight"}  # ours, PyTorch's
    return ".".join(at + [names.get(name, name)]), name == "weight" and path != "softmax/weight"


def number_tensor(entry, dtype):
    data = entry["data"]
    if len(data) != math.prod(entry["shape"]):
        raise Misfit("%d numbers for shape %s" % (len(data), entry["shape"]))
    return torch.tensor(data, dtype=dtype).reshape(entry["shape"])


def compare_logits(model, run, inputs):
    """What there is to say, what differs, by how much, and by how much it may."""
    ours = number_tensor(run["logits"], torch.float32)
    with torch.no_grad():
        theirs = model(*inputs)
    if theirs.shape != ours.shape:
        raise Misfit("logits are %s, PyTorch's %s" % (tuple(ours.shape), tuple(theirs.shape)))
    said = "%d logits of up to %.3g in magnitude" % (ours.numel(), theirs.abs().max().item())
    return said, "logits", (ours - theirs).abs().max().item(), TOLERANCE


def compare_gradients(model, run, inputs):
    """The same of the loss and the gradients, as shares of their norms."""
    rounded = run.get("autocast", False)
    if not rounded:
        model.double()
    model.train()  # without dropout
    targets = number_tensor(run["targets"], torch.int64).flatten()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounded):
        logits = model(*inputs).flatten(0, -2)
    if rounded:
        logits = logits.float()
    loss = F.cross_entropy(logits, targets, ignore_index=-1,
                           label_smoothing=run["smoothing"], reduction="sum") / run["count"]
    loss.backward()
    all_theirs = dict(model.named_parameters())

    def gradient(path):
        name, turned = place(path)
        g = all_theirs.pop(name).grad
        return g.t() if turned else g

    differences = {"loss": abs(run["loss"] - loss.item()) / abs(loss.item())}
    ours = {path: number_tensor(entry, torch.float64) for path, entry in run["gradients"].items()}
    shared = {}  # by the path that the file has
    for path, table in reversed(model.tied.items()):
        if path not in ours:
            shared[table] = shared.get(table, 0) + shared.pop(path, 0) + gradient(path)
    for path, g in ours.items():
        theirs = gradient(path) + shared.get(path, 0)
        if theirs.shape != g.shape:
            raise Misfit("the gradient of %s is %s, PyTorch's %s" % (path, tuple(g.shape), tuple(theirs.shape)))
        differences["gradient of " + path] = ((g - theirs).norm() / theirs.norm()).item()
    if all_theirs:
        raise Misfit("no gradient of PyTorch's %s" % ", ".join(all_theirs))
    worst = max(differences, key=lambda what: (differences[what] != differences[what], differences[what]))
    most = ROUNDED if rounded else NORMED if isinstance(model, ResNet) else RELATIVE
    return "loss %.6g and %d gradients" % (loss.item(), len(ours)), worst, differences[worst], most


def compare(args):
    torch.set_num_threads(1)
    where = args.weights
    try:
        tensors, metadata = read_safetensors(args.weights)
        model = Config(tensors, metadata, args).load()
        where = args.run
        with open(args.run) as f:
            run = json.load(f)
        kind = torch.float32 if isinstance(model, ResNet) else torch.int64
        inputs = [number_tensor(entry, kind) for entry in run["inputs"]]
        if "gradients" in run:
            said, what, difference, most = compare_gradients(model, run, inputs)
        else:
            said, what, difference, most = compare_logits(model, run, inputs)
    except (OSError, KeyError, TypeError, ValueError, IndexError, RuntimeError, Misfit) as e:
        message = e.strerror if isinstance(e, OSError) else str(e)
        sys.exit("%s: %s: %s" % (NAME, where, message))
    print("%s of %d parameters: %s, largest difference %.2g (%s)" % (
        type(model).__name__, sum(t.numel() for t in tensors.values()), said, difference, what))
    if not difference <= most:  # NaN is not
        sys.exit("%s: the %s differ%s by %.2g: want at most %g" % (NAME, what, "" if what.endswith("s") else "s", difference, most))


if __name__ == "__main__":
    p = argparse.ArgumentParser(prog=NAME, description="Compares PyTorch's logits, or loss and gradients, on saved weights with ours.")
    p.add_argument("weights", help="safetensors file")
    p.add_argument("run", help="JSON of inputs and logits, or inputs, targets, loss and gradients")
    p.add_argument("--heads", type=int)
    p.add_argument("--activation", choices=["relu", "gelu"])
    p.add_argument("--clip_logits", type=float)
    p.add_argument("--head_dim", type=int)
    p.add_argument("--rope_theta", type=float)
    compare(p.parse_args())
