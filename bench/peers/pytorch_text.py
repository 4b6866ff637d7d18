"""Language models and translators in PyTorch, for pytorch.py: the same networks as ours, parameter by parameter.

Each function takes the flags and returns the module and a function from nothing to the loss of one forward pass. Modules
and parameters have the names that load_weights.py gives to our weights' paths, so that saved weights can be loaded.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def tokens(args, turn):
    """Token ids (n, t), functions of their places among all of the mini-batch's, the same as in bench/networks.go."""
    count = args.batch * args.seq
    place = torch.arange(turn * count, (turn + 1) * count, dtype=torch.int64)
    return (place * 2654435761 % 2**32 % args.vocab).reshape(args.batch, args.seq)


def with_loss(args, model, forward, targets):
    """Loads weights, and returns what pytorch.py wants; forward returns logits (n*t, vocab)."""
    if args.weights:
        load(model, args.weights)
    targets = targets.flatten()
    return model, lambda: F.cross_entropy(forward(), targets, label_smoothing=args.label_smoothing)


def load(model, path):
    """Weights as `--save` writes them."""
    from load_weights import place, read_safetensors

    tensors, _ = read_safetensors(path)
    own = dict(model.named_parameters())
    for path, t in tensors.items():
        name, turned = place(path)
        with torch.no_grad():
            own.pop(name).copy_(t.t() if turned else t)
    if own:
        raise SystemExit("pytorch.py: %s has no weights for %s" % (path, next(iter(own))))


def causal(time):
    return torch.full((time, time), float("-inf")).triu(1)


# Transformers

def transformer_lm(args):
    """Pre-norm, ReLU or GELU, sinusoidal positions, causal; with a final norm and one table where the flags say so."""
    batch, time, dim, heads = args.batch, args.seq, args.dim, args.heads
    count, head_dim, unseen = batch * time, dim // heads, causal(time)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.attention = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim), "out": nn.Linear(dim, dim)})
            self.feedforward = nn.ModuleDict({"in": nn.Linear(dim, args.ff), "out": nn.Linear(args.ff, dim)})

        def forward(self, x):  # x is (N*T, d)
            # One copy puts q, k and v in (N*heads, T, d/heads); scale and mask ride on the product. Adding the
            # residual and ReLU in place is safe: no backward reads what they overwrite.
            q, k, v = (self.attention["qkv"](self.norm1(x)).view(batch, time, 3, heads, head_dim).permute(2, 0, 3, 1, 4)
                       .reshape(3, batch * heads, time, head_dim).unbind(0))
            p = torch.baddbmm(unseen, q, k.transpose(1, 2), alpha=1 / math.sqrt(head_dim)).softmax(2)
            h = torch.bmm(p, v).view(batch, heads, time, head_dim).transpose(1, 2).reshape(count, dim)
            x = self.attention["out"](h).add_(x)
            h = self.feedforward["in"](self.norm2(x))
            h = F.gelu(h, approximate="tanh") if args.gelu else F.relu(h, inplace=True)
            return self.feedforward["out"](h).add_(x)

    model = nn.ModuleDict({"embedding": nn.Embedding(args.vocab, dim)})
    nn.init.normal_(model["embedding"].weight, std=dim ** -0.5)
    layers = ["layer%d" % (i + 1) for i in range(args.layers)]
    for name in layers:
        model[name] = Layer()
    model["softmax"] = nn.Linear(dim, args.vocab)
    if args.final_norm:
        model["softmax"].norm = nn.LayerNorm(dim)
    if args.tied != "none":
        model["softmax"].weight = model["embedding"].weight
    angle = (torch.arange(time, dtype=torch.float64)[:, None]
             / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    positions = torch.stack((angle.sin(), angle.cos()), 2).reshape(time, dim).float().repeat(batch, 1)  # (N*T, d)
    ids = tokens(args, 0).flatten()

    def forward():
        x = torch.add(positions, model["embedding"](ids), alpha=math.sqrt(dim))
        for name in layers:
            x = model[name](x)
        if args.final_norm:
            x = model["softmax"].norm(x)
        return model["softmax"](x)

    return with_loss(args, model, forward, tokens(args, 1))


def llama(args):
    """RMS norms, rotary positions in halves, grouped-query attention, SwiGLU, no biases; with the published names."""
    batch, time, dim, heads = args.batch, args.seq, args.dim, args.heads
    pairs = args.kv_heads or heads
    width = args.head_dim or dim // heads
    model = nn.Module()

    def param(name, *shape):
        p = nn.Parameter(torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * dim ** -0.5)
        model.register_parameter(name.replace(".", "/"), p)
        return p

    table = param("model.embed_tokens.weight", args.vocab, dim)
    layers = []
    for i in range(args.layers):
        at, w = "model.layers.%d." % i, {}
        for name, *shape in (("input_layernorm", dim), ("self_attn.q_proj", heads * width, dim), ("self_attn.k_proj", pairs * width, dim),
                             ("self_attn.v_proj", pairs * width, dim), ("self_attn.o_proj", dim, heads * width),
                             ("post_attention_layernorm", dim), ("mlp.gate_proj", args.ff, dim), ("mlp.up_proj", args.ff, dim),
                             ("mlp.down_proj", dim, args.ff)):
            w[name.split(".")[-1]] = param(at + name + ".weight", *shape)
        layers.append(w)
    last = param("model.norm.weight", dim)
    out = table if args.tied != "none" else param("lm_head.weight", args.vocab, dim)

    angle = torch.arange(time, dtype=torch.float64)[:, None] / (args.rope_theta or 10000) ** (
        torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.cat((angle, angle), 1)[:, None]  # (T, 1, width)
    cos, sin = angle.cos().float(), angle.sin().float()
    sin[:, :, :width // 2].neg_()
    # The queries of all heads that share a head of keys are one matrix: nothing is copied for each head.
    unseen = causal(time).repeat(heads // pairs, 1)

    def norm(x, gamma):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gamma

    def rotated(x):
        return x * cos + torch.roll(x, width // 2, 3) * sin

    def split(x, n):
        return x.view(batch, time, n, width)

    def forward():
        x = F.embedding(ids, table)
        for w in layers:
            h = norm(x, w["input_layernorm"])
            q, k = (rotated(split(F.linear(h, w[name]), n)) for name, n in (("q_proj", heads), ("k_proj", pairs)))
            v = split(F.linear(h, w["v_proj"]), pairs)
            q = q.transpose(1, 2).reshape(batch * pairs, heads // pairs * time, width)
            k, v = (y.transpose(1, 2).reshape(batch * pairs, time, width) for y in (k, v))
            p = torch.baddbmm(unseen, q, k.transpose(1, 2), alpha=1 / math.sqrt(width)).softmax(2)
            h = torch.bmm(p, v).view(batch, heads, time, width).transpose(1, 2).reshape(batch * time, heads * width)
            x = F.linear(h, w["o_proj"]).add_(x)
            h = norm(x, w["post_attention_layernorm"])
            x = F.linear(F.silu(F.linear(h, w["gate_proj"])) * F.linear(h, w["up_proj"]), w["down_proj"]).add_(x)
        return F.linear(norm(x, last), out)

    ids = tokens(args, 0).flatten()
    return with_loss(args, model, forward, tokens(args, 1))


# GNMT

class LSTM(nn.Module):
    """One or both directions of PyTorch's own scan, with one bias for each gate. The second of PyTorch's stays zero."""

    def __init__(self, inputs, hidden, both=False):
        super().__init__()
        self.hidden, self.ways = hidden, ["forward", "backward"] if both else [""]
        for way in self.ways:
            at = self
            if way:
                at = self._modules[way] = nn.Module()  # add_module refuses the name forward
            at.input, at.recurrent = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.register_buffer("zero", torch.zeros(4 * hidden))

    def scan(self, x):  # (n, t, inputs)
        state = x.new_zeros(len(self.ways), len(x), self.hidden)
        weights = []
        for way in self.ways:
            at = self._modules[way] if way else self
            weights += [at.input.weight, at.recurrent.weight, at.input.bias, self.zero]
        return torch._VF.lstm(x, (state, state), weights, True, 1, 0.0, True, len(self.ways) == 2, True)[0]


class AdditiveAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.memory = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.vector, self.scale = nn.Parameter(torch.randn(dim)), nn.Parameter(torch.full((1,), dim ** -0.5))

    def forward(self, query, memory):
        scores = torch.tanh(self.query(query)[:, :, None] + self.memory(memory)[:, None]) @ (self.scale * self.vector / self.vector.norm())
        return torch.bmm(scores.softmax(2), memory)


def gnmt(args):
    """The sentences are not padded, so that nothing is masked."""
    dim = args.dim
    model = nn.ModuleDict({"embedding": nn.ModuleDict({side: nn.Embedding(args.vocab, dim) for side in ("source", "target")})})
    if args.tied == "all":
        model["embedding"]["target"].weight = model["embedding"]["source"].weight
    for i in range(args.layers):
        model["encoder%d" % (i + 1)] = nn.ModuleDict({"lstm": LSTM(2 * dim if i == 1 else dim, dim, i == 0)})
    for i in range(args.layers):
        model["decoder%d" % (i + 1)] = nn.ModuleDict({"lstm": LSTM(2 * dim if i else dim, dim)})
    model["decoder1"]["attention"] = AdditiveAttention(dim)
    model["softmax"] = nn.Linear(dim, args.vocab)
    source, target = tokens(args, 0), tokens(args, 1)

    def scan(name, x, residual):
        h = model[name]["lstm"].scan(x)
        return h if residual is None else h + residual

    def forward():
        memory = model["embedding"]["source"](source)
        for i in range(args.layers):
            memory = scan("encoder%d" % (i + 1), memory, memory if i >= 2 else None)
        h = scan("decoder1", model["embedding"]["target"](target), None)
        context = model["decoder1"]["attention"](h, memory)
        for i in range(1, args.layers):
            h = scan("decoder%d" % (i + 1), torch.cat((h, context), 2), h if i >= 2 else None)
        return model["softmax"](h).flatten(0, 1)

    return with_loss(args, model, forward, tokens(args, 2))
