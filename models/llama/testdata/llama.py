#!/usr/bin/env python3
"""Makes llama.json and llama_tied.json with PyTorch: a whole small llama, its gradients and ten Adam steps.

    python3 models/llama/testdata/llama.py

The model, with tensors by their published names (weights are (out, in)):
    x = embed_tokens[ids]
    each layer: x = x + o_proj(attention(rotated q_proj(h), rotated k_proj(h), v_proj(h))), causal, h = norm(x)
                x = x + down_proj(silu(gate_proj(h)) * up_proj(h)), h = norm(x)
    logits = lm_head(norm(x)), where lm_head is embed_tokens if it is tied
    norm(x) = x / sqrt(mean(x^2) + eps) * weight
    rotated(x) = x cos + (-second half of x, first half of x) sin, of angles p / theta^(2j/width), twice beside each other
    loss = mean over targets other than -1 of the cross-entropy with label smoothing

Parameters start from multiples of 1/256, which nine digits and a float32 represent exactly; everything computed from
them is computed in float64, on one thread. Magnitudes below 1e-14 are float64's own rounding noise around an exact zero
and are written as 0. The files are the same, byte for byte, on every run; rewrite them only when the model's definition
changes.

    python3 models/llama/testdata/llama.py --seeds N

writes nothing and prints which of N seeds keep gradients clear of 0, since Adam uses little more than their sign.
"""

import json
import math
import os
import random
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = "models/llama/testdata/llama.py"
NOISE = 1e-14

VOCAB, DIM, FF, HEADS, KV_HEADS, WIDTH, TIME, BATCH, LAYERS = 7, 6, 7, 4, 2, 4, 5, 3, 2
LENGTHS = [5, 3, 4]  # targets at and beyond a length are masked
THETA, EPS, SMOOTHING, MASKED = 50.0, 1e-5, 0.1, -1
ADAM = dict(lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
STEPS = 10
SEEDS = {False: 5, True: 5}  # by whether it is tied
TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def grid(rng, *shape, std, mean=0.0):
    """Normal numbers, rounded to multiples of 1/256."""
    data = [round((mean + std * rng.gauss(0, 1)) * 256) / 256 for _ in range(math.prod(shape))]
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


def initial(seed, tied):
    """Every parameter by name, in the model's order. Norms differ from their usual 1, so that they matter."""
    rng = random.Random(seed)
    p = {TABLE: grid(rng, VOCAB, DIM, std=0.7)}
    for layer in range(LAYERS):
        at = "model.layers.%d." % layer
        p[at + "input_layernorm.weight"] = grid(rng, DIM, std=0.2, mean=1)
        p[at + "self_attn.q_proj.weight"] = grid(rng, HEADS * WIDTH, DIM, std=0.4)
        p[at + "self_attn.k_proj.weight"] = grid(rng, KV_HEADS * WIDTH, DIM, std=0.4)
        p[at + "self_attn.v_proj.weight"] = grid(rng, KV_HEADS * WIDTH, DIM, std=0.4)
        p[at + "self_attn.o_proj.weight"] = grid(rng, DIM, HEADS * WIDTH, std=0.4)
        p[at + "post_attention_layernorm.weight"] = grid(rng, DIM, std=0.2, mean=1)
        p[at + "mlp.gate_proj.weight"] = grid(rng, FF, DIM, std=0.4)
        p[at + "mlp.up_proj.weight"] = grid(rng, FF, DIM, std=0.4)
        p[at + "mlp.down_proj.weight"] = grid(rng, DIM, FF, std=0.4)
    p["model.norm.weight"] = grid(rng, DIM, std=0.2, mean=1)
    if not tied:
        p[HEAD] = grid(rng, VOCAB, DIM, std=0.4)
    return p


def batch():
    """Ids, and as targets the next id; beyond an example's length the id is 0 and the target masked."""
    rng = random.Random(12)
    text = torch.tensor([[rng.randrange(VOCAB) for _ in range(TIME + 1)] for _ in range(BATCH)])
    beyond = torch.arange(TIME)[None, :] >= torch.tensor(LENGTHS)[:, None]
    return text[:, :-1].masked_fill(beyond, 0), text[:, 1:].masked_fill(beyond, MASKED)


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rotated(x):
    angle = torch.arange(TIME, dtype=torch.float64)[:, None] / THETA ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angle = torch.cat((angle, angle), 1)
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()


def logits_of(p, ids, head):
    """The model's logits (N, T, V)."""
    x = F.embedding(ids, p[TABLE])
    for layer in range(LAYERS):
        def get(name):
            return p["model.layers.%d.%s.weight" % (layer, name)]

        def heads(name, h):
            return F.linear(h, get(name)).reshape(BATCH, TIME, -1, WIDTH).transpose(1, 2)

        h = norm(x, get("input_layernorm"))
        q, k, v = (heads("self_attn.%s_proj" % which, h) for which in "qkv")
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (rotated(k), v))
        scores = rotated(q) @ k.transpose(2, 3) / math.sqrt(WIDTH)
        scores = scores.masked_fill(torch.ones(TIME, TIME, dtype=torch.bool).triu(1), -math.inf)
        x = x + F.linear((scores.softmax(3) @ v).transpose(1, 2).flatten(2), get("self_attn.o_proj"))
        h = norm(x, get("post_attention_layernorm"))
        x = x + F.linear(F.silu(F.linear(h, get("mlp.gate_proj"))) * F.linear(h, get("mlp.up_proj")), get("mlp.down_proj"))
    return F.linear(norm(x, p["model.norm.weight"]), head)


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=MASKED, label_smoothing=SMOOTHING)


def run(seed, tied):
    """All tensors of a file."""
    ids, targets = batch()
    p = {name: t.requires_grad_() for name, t in initial(seed, tied).items()}
    weight = TABLE if tied else HEAD
    out = {"ids": ids, "targets": targets}
    out.update({"param/" + name: t.detach().clone() for name, t in p.items()})

    # The softmax's weight is a separate leaf, so that a tied table's two gradients can be distinguished.
    use1 = p[weight].detach().clone().requires_grad_()
    logits = logits_of(p, ids, use1)
    loss = loss_of(logits, targets)
    loss.backward()
    out["logits"], out["loss"] = logits, loss
    for name, t in p.items():  # copies: the optimiser's steps write into the same tensors
        if tied and name == weight:
            out["grad/" + name] = t.grad + use1.grad
            out["grad/" + name + "/use0"] = t.grad.clone()
            out["grad/" + name + "/use1"] = use1.grad.clone()
        else:
            out["grad/" + name] = (use1 if name == weight else t).grad.clone()

    optimizer = torch.optim.Adam(p.values(), **ADAM)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(logits_of(p, ids, p[weight]), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    out["losses"] = torch.stack(losses)
    out.update({"adam10/" + name: t for name, t in p.items()})
    return {name: t.detach() for name, t in out.items()}


def smallest(out):
    """The smallest gradient that is not exactly zero."""
    return min(t[t.abs() > NOISE].abs().min() for name, t in out.items() if name.startswith("grad/")).item()


def write(name, tied):
    def number(v):
        return 0.0 if abs(v) < NOISE else float("%.9g" % v)

    out = run(SEEDS[tied], tied)
    assert smallest(out) > 2e-5, smallest(out)
    lines = []
    for key, t in out.items():
        data = [number(v) if t.dtype.is_floating_point else v for v in t.flatten().tolist()]
        value = json.dumps({"shape": list(t.shape), "data": data}, separators=(",", ":"), allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), value))
    config = {
        "vocab": VOCAB, "dim": DIM, "ff": FF, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": WIDTH, "layers": LAYERS,
        "time": TIME, "batch": BATCH, "lengths": LENGTHS, "masked": MASKED, "label_smoothing": SMOOTHING, "norm_eps": EPS,
        "rope_theta": THETA, "tied": tied, "adam": ADAM, "steps": STEPS,
        "losses": "of the ten steps, each before its update: losses[0] is loss",
    }
    head = {"torch": torch.__version__, "script": SCRIPT, "config": config}
    path = os.path.join(HERE, name)
    with open(path, "w") as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "tensors": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n")
    print("%8d %s" % (os.path.getsize(path), name))


def try_seeds(n):
    for tied in (False, True):
        for seed in range(n):
            least = smallest(run(seed, tied))
            if least > 2e-5:
                print("tied" if tied else "untied", "seed %d: smallest gradient %.1e" % (seed, least))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--seeds"] and len(sys.argv) == 3:
        try_seeds(int(sys.argv[2]))
    elif sys.argv[1:]:
        sys.exit("llama.py: unknown arguments %r: none, or --seeds N" % sys.argv[1:])
    else:
        write("llama.json", tied=False)
        write("llama_tied.json", tied=True)
