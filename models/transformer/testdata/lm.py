#!/usr/bin/env python3
"""Makes lm.json, lm_tied.json and lm_norm.json with PyTorch: a whole small transformer-lm, its gradients and ten Adam steps.

    python3 models/transformer/testdata/lm.py

The model (pre-norm; a final norm only in lm_norm.json):
    x = table[ids] * sqrt(d) + PE,  PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same)
    each layer: x = x + Attention(LN1(x)), causal;  x = x + relu(LN2(x) W1 + b1) W2 + b2
    logits = x W' + b, or LN(x) W' + b with a final norm, W being softmax/weight (vocab, d) or, tied, the embedding's table
    loss = mean over targets other than -1 of the cross-entropy with label smoothing

Parameters start from multiples of 1/256, which nine digits and a float32 represent exactly; everything
computed from them is computed in float64, on one thread. Magnitudes below 1e-14 are float64's own rounding noise
around an exact zero and are written as 0. The files are the same, byte for byte, on every run; rewrite them only
when the model's definition changes.

    python3 models/transformer/testdata/lm.py --float32

writes nothing and prints the errors of the same run in float32, for choosing a test's tolerance.
"""

import json
import math
import os
import random
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = "models/transformer/testdata/lm.py"
NOISE = 1e-14

VOCAB, DIM, FF, HEADS, TIME, BATCH, LAYERS = 11, 8, 16, 2, 6, 4, 2
LENGTHS = [6, 4, 5, 1]  # targets at and beyond a length are masked
SMOOTHING, EPS, MASKED = 0.1, 1e-5, -1
ADAM = dict(lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
STEPS = 10
NORM_SEED = 65  # of initial values with a final norm


def grid(rng, *shape, std, mean=0.0):
    """Normal numbers, rounded to multiples of 1/256."""
    data = [round((mean + std * rng.gauss(0, 1)) * 256) / 256 for _ in range(math.prod(shape))]
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


def initial(tied, norm):
    """Every parameter by name, in the model's order. Biases and norms differ from their usual 0 and 1, so that they matter."""
    rng = random.Random(NORM_SEED if norm else 13)  # seeds that keep ReLU inputs and gradients clear of 0, see the end of run
    p = {"embedding/table": grid(rng, VOCAB, DIM, std=0.35)}
    for layer in range(1, LAYERS + 1):
        def add(name, *shape, std, mean=0.0):
            p["layer%d/%s" % (layer, name)] = grid(rng, *shape, std=std, mean=mean)

        add("norm1/gamma", DIM, std=0.2, mean=1)
        add("norm1/beta", DIM, std=0.2)
        add("attention/qkv/weight", DIM, 3 * DIM, std=0.35)
        add("attention/qkv/bias", 3 * DIM, std=0.2)
        add("attention/out/weight", DIM, DIM, std=0.35)
        add("attention/out/bias", DIM, std=0.2)
        add("norm2/gamma", DIM, std=0.2, mean=1)
        add("norm2/beta", DIM, std=0.2)
        add("feedforward/in/weight", DIM, FF, std=0.35)
        add("feedforward/in/bias", FF, std=0.2)
        add("feedforward/out/weight", FF, DIM, std=0.25)
        add("feedforward/out/bias", DIM, std=0.2)
    if not tied:
        p["softmax/weight"] = grid(rng, VOCAB, DIM, std=0.35)
    p["softmax/bias"] = grid(rng, VOCAB, std=0.2)
    if norm:
        p["softmax/norm/gamma"] = grid(rng, DIM, std=0.2, mean=1)
        p["softmax/norm/beta"] = grid(rng, DIM, std=0.2)
    return p


def batch():
    """Ids, and as targets the next id; beyond an example's length the id is 0 and the target masked."""
    rng = random.Random(12)
    text = torch.tensor([[rng.randrange(VOCAB) for _ in range(TIME + 1)] for _ in range(BATCH)])
    beyond = torch.arange(TIME)[None, :] >= torch.tensor(LENGTHS)[:, None]
    return text[:, :-1].masked_fill(beyond, 0), text[:, 1:].masked_fill(beyond, MASKED)


def positions(dtype):
    pe = torch.zeros(TIME, DIM, dtype=torch.float64)
    for pos in range(TIME):
        for i in range(DIM // 2):
            angle = pos / 10000 ** (2 * i / DIM)
            pe[pos, 2 * i], pe[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return pe.to(dtype)


def logits_of(p, ids, softmax_weight, kinks=None):
    """The model's logits (N, T, V). kinks collects the ReLUs' inputs."""
    table = p["embedding/table"]
    x = F.embedding(ids, table) * math.sqrt(DIM) + positions(table.dtype)
    unseen = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
    for layer in range(1, LAYERS + 1):
        def get(name):
            return p["layer%d/%s" % (layer, name)]

        h = F.layer_norm(x, (DIM,), get("norm1/gamma"), get("norm1/beta"), EPS).transpose(0, 1)
        h, _ = F.multi_head_attention_forward(
            h, h, h, DIM, HEADS, get("attention/qkv/weight").t(), get("attention/qkv/bias"), None, None, False, 0.0,
            get("attention/out/weight").t(), get("attention/out/bias"), need_weights=False, attn_mask=unseen,
        )
        x = x + h.transpose(0, 1)
        h = F.layer_norm(x, (DIM,), get("norm2/gamma"), get("norm2/beta"), EPS)
        h = h @ get("feedforward/in/weight") + get("feedforward/in/bias")
        if kinks is not None:
            kinks.append(h.detach())
        x = x + F.relu(h) @ get("feedforward/out/weight") + get("feedforward/out/bias")
    if "softmax/norm/gamma" in p:
        x = F.layer_norm(x, (DIM,), p["softmax/norm/gamma"], p["softmax/norm/beta"], EPS)
    return x @ softmax_weight.t() + p["softmax/bias"]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=MASKED, label_smoothing=SMOOTHING)


def loss_by_hand(logits, targets):
    goal = F.one_hot(targets.clamp(min=0), VOCAB).to(logits) * (1 - SMOOTHING) + SMOOTHING / VOCAB
    seen = targets != MASKED
    return -(goal * logits.log_softmax(2)).sum(2)[seen].sum() / seen.sum()


def run(tied, norm, dtype=torch.float64):
    """All tensors of a file."""
    ids, targets = batch()
    p = {name: t.to(dtype).requires_grad_() for name, t in initial(tied, norm).items()}
    weight = "embedding/table" if tied else "softmax/weight"
    out = {"ids": ids, "targets": targets}
    out.update({"param/" + name: t.detach().clone() for name, t in p.items()})

    # The softmax's weight is a separate leaf, so that a tied table's two gradients can be distinguished.
    use1 = p[weight].detach().clone().requires_grad_()
    kinks = []
    logits = logits_of(p, ids, use1, kinks)
    loss = loss_of(logits, targets)
    loss.backward()
    assert (loss - loss_by_hand(logits, targets)).abs() < (1e-13 if dtype == torch.float64 else 1e-5)
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
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(logits_of(p, ids, p[weight], kinks), targets)
        loss.backward()
        if step == 0:  # autograd's own sum over the two uses
            assert all((t.grad - out["grad/" + name]).abs().max() < 1e-6 for name, t in p.items())
        if dtype == torch.float64:  # the keys' bias has no gradient; Adam must not walk along its rounding noise
            for layer in range(1, LAYERS + 1):
                g = p["layer%d/attention/qkv/bias" % layer].grad[DIM:2 * DIM]
                assert g.abs().max() < NOISE
                g.zero_()
        optimizer.step()
        losses.append(loss.detach())
    out["losses"] = torch.stack(losses)
    out.update({"adam10/" + name: t for name, t in p.items()})
    # Values with another sign in float32 would spoil the oracle: inputs of a ReLU, and gradients, of which Adam uses
    # little more than the sign.
    assert min(k.abs().min() for k in kinks) > 1e-4
    if dtype == torch.float64:
        for name, t in out.items():
            assert not name.startswith("grad/") or t[t.abs() > NOISE].abs().min() > 5e-5, name
    return {name: t.detach() for name, t in out.items()}


def write(name, tied, norm=False):
    def number(v):
        return 0.0 if abs(v) < NOISE else float("%.9g" % v)

    lines = []
    for key, t in run(tied, norm).items():
        data = [number(v) if t.dtype.is_floating_point else v for v in t.flatten().tolist()]
        value = json.dumps({"shape": list(t.shape), "data": data}, separators=(",", ":"), allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), value))
    config = {
        "vocab": VOCAB, "dim": DIM, "ff": FF, "heads": HEADS, "layers": LAYERS, "time": TIME, "batch": BATCH,
        "lengths": LENGTHS, "masked": MASKED, "label_smoothing": SMOOTHING, "norm_eps": EPS, "tied": tied,
        "adam": ADAM, "steps": STEPS,
        "layout": "y = x.W + b with W (in, out); qkv's columns are q | k | v, heads side by side within each; softmax/weight is (vocab, dim)",
        "losses": "of the ten steps, each before its update: losses[0] is loss",
        "exact_zero": "grad/layerN/attention/qkv/bias[dim:2*dim], the keys' bias: softmax does not see it. Exactly 0 here, so adam10 "
                      "leaves it alone; in float32 it is noise that Adam's small eps turns into steps of up to lr: leave it out of the comparison",
    }
    if norm:
        config["final_norm"] = True
    head = {"torch": torch.__version__, "script": SCRIPT, "config": config}
    path = os.path.join(HERE, name)
    with open(path, "w") as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "tensors": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n")
    print("%8d %s" % (os.path.getsize(path), name))


def compare_float32(tied, norm):
    exact, single = run(tied, norm), run(tied, norm, torch.float32)
    print("tied" if tied else "untied", "final norm" if norm else "no final norm", "| largest difference, float32 against float64")
    for name, t in exact.items():
        if t.dtype.is_floating_point and not name.startswith("param/"):
            d = (single[name].double() - t).abs()
            small = t[t.abs() > NOISE].abs()
            print("  %-45s %.1e (magnitudes %.1e to %.1e)" % (name, d.max(), small.min(), small.max()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--float32"]:
        for tied, norm in ((False, False), (True, False), (True, True)):
            compare_float32(tied, norm)
    elif sys.argv[1:]:
        sys.exit("lm.py: unknown argument %r: none, or --float32" % sys.argv[1])
    else:
        write("lm.json", tied=False)
        write("lm_tied.json", tied=True)
        write("lm_norm.json", tied=True, norm=True)
