#!/usr/bin/env python3
"""Makes translation.json with PyTorch: a whole small encoder-decoder Transformer, its gradients and ten Adam steps.

    python3 models/transformer/testdata/translation.py

The model (pre-norm, a norm after the encoder and none after the decoder; the head size is not d / heads):
    source = table[source_ids] * sqrt(d) + PE,  target = table[target_ids] * sqrt(d) + PE,
        PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same)
    encoder layer: source += Attention(LN(source)), keys at and beyond an example's length unseen
                   source += relu(LN(source) W1 + b1) W2 + b2
    after the last one: source = LN(source)
    decoder layer: target += Attention(LN(target)), causal
                   target += Attention(LN(target) to source), keys as in the encoder
                   target += relu(LN(target) W1 + b1) W2 + b2
    logits = clip(target table' + b), at CLIP: the gradient passes where the magnitude is at most that
    loss = mean over targets other than -1 of the cross-entropy with label smoothing

Numbers are made and written as in lm.py; the file is the same, byte for byte, on every run. Rewrite it only when the
model's definition changes.

    python3 models/transformer/testdata/translation.py --float32

writes nothing and prints the errors of the same run in float32, for choosing a test's tolerance.

    python3 models/transformer/testdata/translation.py --seeds N

tries N seeds and prints those with which no relevant value has another sign in float32 (see distances).
"""

import json
import math
import os
import random
import sys

import torch
import torch.nn.functional as F

from lm import ADAM, EPS, HERE, MASKED, NOISE, SMOOTHING, STEPS, grid

SCRIPT = "models/transformer/testdata/translation.py"

VOCAB, DIM, FF, HEADS, HEAD_DIM, LAYERS = 11, 8, 12, 2, 3, 2
BATCH, SOURCE_TIME, TARGET_TIME = 4, 6, 5
SOURCE_LENGTHS = [4, 6, 1, 5]
TARGET_LENGTHS = [5, 1, 4, 3]  # targets at and beyond a length are masked
CLIP = 3.0
BEGIN = 0
INNER = HEADS * HEAD_DIM
SEED = 34  # one that --seeds prints
TABLE = "embedding/source/table"


def initial(seed):
    """Every parameter by name, in the model's order. Biases and norms differ from their usual 0 and 1, so that they matter."""
    rng = random.Random(seed)
    p = {TABLE: grid(rng, VOCAB, DIM, std=0.35)}

    def dense(name, inputs, outputs, std):
        p[name + "/weight"] = grid(rng, inputs, outputs, std=std)
        p[name + "/bias"] = grid(rng, outputs, std=0.2)

    def norm(name):
        p[name + "/norm/gamma"] = grid(rng, DIM, std=0.2, mean=1)
        p[name + "/norm/beta"] = grid(rng, DIM, std=0.2)

    def attention(name, *projections):
        norm(name)
        for which, count in projections:
            dense(name + "/" + which, DIM, count * INNER, 0.4)
        dense(name + "/out", INNER, DIM, 0.35)

    def feedforward(name):
        norm(name)
        dense(name + "/in", DIM, FF, 0.35)
        dense(name + "/out", FF, DIM, 0.25)

    for layer in range(1, LAYERS + 1):
        attention("encoder%d/attention" % layer, ("qkv", 3))
        feedforward("encoder%d/feedforward" % layer)
    norm("encoder%d" % LAYERS)
    for layer in range(1, LAYERS + 1):
        attention("decoder%d/attention" % layer, ("qkv", 3))
        attention("decoder%d/cross" % layer, ("q", 1), ("kv", 2))
        feedforward("decoder%d/feedforward" % layer)
    p["softmax/bias"] = grid(rng, VOCAB, std=0.2)
    return p


def beyond(lengths, time):
    return torch.arange(time)[None, :] >= torch.tensor(lengths)[:, None]


def batch():
    """Source ids, target ids shifted right, targets. Tokens beyond a length are random, too: they must not be used."""
    rng = random.Random(21)
    draw = lambda time: torch.tensor([[rng.randrange(VOCAB) for _ in range(time)] for _ in range(BATCH)])
    source, text = draw(SOURCE_TIME), draw(TARGET_TIME)
    shifted = torch.cat([torch.full((BATCH, 1), BEGIN), text[:, :-1]], 1)
    return source, shifted, text.masked_fill(beyond(TARGET_LENGTHS, TARGET_TIME), MASKED)


def positions(time, dtype):
    pos, i = torch.arange(time, dtype=torch.float64)[:, None], torch.arange(DIM // 2, dtype=torch.float64)[None, :]
    angle = pos / 10000 ** (2 * i / DIM)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1).to(dtype)


def attend(q, k, v, unseen):
    """q (n, t, inner), k and v (n, t', inner), unseen broadcasting to (n, heads, t, t')."""
    heads = lambda x: x.unflatten(2, (HEADS, HEAD_DIM)).transpose(1, 2)
    scores = heads(q) @ heads(k).transpose(2, 3) / math.sqrt(HEAD_DIM)
    weights = scores.masked_fill(unseen, -math.inf).softmax(3)
    return (weights @ heads(v)).transpose(1, 2).flatten(2)


def logits_of(p, source_ids, target_ids, tables, kinks):
    """The model's logits (n, t, vocab). Tables are those of the source, the target and the softmax. kinks collects the
    distances of all values from the kinks of ReLU and clipping."""
    dtype = p[TABLE].dtype
    padding = beyond(SOURCE_LENGTHS, SOURCE_TIME)[:, None, None, :]
    future = torch.ones(TARGET_TIME, TARGET_TIME, dtype=torch.bool).triu(1)

    def dense(name, x):
        return x @ p[name + "/weight"] + p[name + "/bias"]

    def norm(name, x):
        return F.layer_norm(x, (DIM,), p[name + "/norm/gamma"], p[name + "/norm/beta"], EPS)

    def attention(name, x, unseen):
        q, k, v = dense(name + "/qkv", norm(name, x)).split(INNER, 2)
        return x + dense(name + "/out", attend(q, k, v, unseen))

    def cross(name, x, memory):
        k, v = dense(name + "/kv", memory).split(INNER, 2)
        return x + dense(name + "/out", attend(dense(name + "/q", norm(name, x)), k, v, padding))

    def feedforward(name, x):
        h = dense(name + "/in", norm(name, x))
        kinks.append(h.detach().abs())
        return x + dense(name + "/out", F.relu(h))

    source = F.embedding(source_ids, tables[0]) * math.sqrt(DIM) + positions(SOURCE_TIME, dtype)
    target = F.embedding(target_ids, tables[1]) * math.sqrt(DIM) + positions(TARGET_TIME, dtype)
    for layer in range(1, LAYERS + 1):
        source = attention("encoder%d/attention" % layer, source, padding)
        source = feedforward("encoder%d/feedforward" % layer, source)
    source = norm("encoder%d" % LAYERS, source)
    for layer in range(1, LAYERS + 1):
        target = attention("decoder%d/attention" % layer, target, future)
        target = cross("decoder%d/cross" % layer, target, source)
        target = feedforward("decoder%d/feedforward" % layer, target)
    logits = target @ tables[2].t() + p["softmax/bias"]
    kinks.append((logits.detach().abs() - CLIP).abs())
    return logits.clamp(-CLIP, CLIP)


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=MASKED, label_smoothing=SMOOTHING)


def loss_by_hand(logits, targets):
    goal = F.one_hot(targets.clamp(min=0), VOCAB).to(logits) * (1 - SMOOTHING) + SMOOTHING / VOCAB
    seen = targets != MASKED
    return -(goal * logits.log_softmax(2)).sum(2)[seen].sum() / seen.sum()


def keys_biases(grads):
    """The parts of gradients for keys' biases, which are zero, since softmax does not depend on them."""
    for name, g in grads.items():
        if name.endswith("/qkv/bias"):
            yield g[INNER:2 * INNER]
        elif name.endswith("/kv/bias"):
            yield g[:INNER]


def run(seed, dtype=torch.float64):
    """All tensors of the file, and the distances from kinks."""
    exact = dtype == torch.float64
    source, shifted, targets = batch()
    p = {name: t.to(dtype).requires_grad_() for name, t in initial(seed).items()}
    out = {
        "source": source, "source_lengths": torch.tensor(SOURCE_LENGTHS), "shifted_targets": shifted, "targets": targets,
    }
    out.update({"param/" + name: t.detach().clone() for name, t in p.items()})

    # Each use of the table is a separate leaf here, so that their gradients can be distinguished.
    uses = [p[TABLE].detach().clone().requires_grad_() for _ in range(3)]
    kinks = []
    logits = logits_of(p, source, shifted, uses, kinks)
    loss = loss_of(logits, targets)
    loss.backward()
    assert (loss - loss_by_hand(logits, targets)).abs() < (1e-13 if exact else 1e-5)
    clipped = (logits.detach().abs() == CLIP).sum()
    assert 0 < clipped < logits.numel() / 4, clipped
    out["logits"], out["loss"] = logits, loss
    for i, use in enumerate(uses):  # copies: the optimiser's steps write into the same tensors
        out["grad/%s/use%d" % (TABLE, i)] = use.grad.clone()
    for name, t in p.items():
        out["grad/" + name] = (sum(use.grad for use in uses) if name == TABLE else t.grad).clone()

    optimizer = torch.optim.Adam(p.values(), **ADAM)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(logits_of(p, source, shifted, [p[TABLE]] * 3, kinks), targets)
        loss.backward()
        if step == 0:  # autograd's own sum over the uses
            assert all((t.grad - out["grad/" + name]).abs().max() < 1e-6 for name, t in p.items())
        if exact:  # Adam must not walk along the rounding noise of an exact zero
            for g in keys_biases({name: t.grad for name, t in p.items()}):
                assert g.abs().max() < NOISE
                g.zero_()
        optimizer.step()
        losses.append(loss.detach())
    out["losses"] = torch.stack(losses)
    out.update({"adam10/" + name: t for name, t in p.items()})
    return {name: t.detach() for name, t in out.items()}, kinks


def distances(out, kinks):
    """Distances from what would spoil the oracle: from a kink that a value may cross in float32, and from 0 for a
    gradient, since Adam uses little more than its sign."""
    smallest = min(t[t.abs() > NOISE].abs().min() for name, t in out.items() if name.startswith("grad/"))
    return min(k.min() for k in kinks).item(), smallest.item()


def is_clear(kink, gradient):
    return kink > 1e-4 and gradient > 2e-5


def write():
    out, kinks = run(SEED)
    assert is_clear(*distances(out, kinks)), distances(out, kinks)

    def number(v):
        return 0.0 if abs(v) < NOISE else float("%.9g" % v)

    lines = []
    for key, t in out.items():
        data = [number(v) if t.dtype.is_floating_point else v for v in t.flatten().tolist()]
        value = json.dumps({"shape": list(t.shape), "data": data}, separators=(",", ":"), allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), value))
    config = {
        "vocab": VOCAB, "dim": DIM, "ff": FF, "heads": HEADS, "head_dim": HEAD_DIM, "layers": LAYERS,
        "batch": BATCH, "source_time": SOURCE_TIME, "target_time": TARGET_TIME,
        "source_lengths": SOURCE_LENGTHS, "target_lengths": TARGET_LENGTHS, "masked": MASKED,
        "clip_logits": CLIP, "label_smoothing": SMOOTHING, "norm_eps": EPS, "adam": ADAM, "steps": STEPS,
        "layout": "y = x.W + b with W (in, out); columns of qkv are q | k | v and of kv k | v, heads side by side within each",
        "uses": "of the table: 0 the source's embedding, 1 the target's, 2 the softmax",
        "losses": "of the ten steps, each before its update: losses[0] is loss",
        "exact_zero": "the gradient of the keys' biases, qkv/bias[inner:2*inner] and kv/bias[:inner]: softmax does not see "
                      "them. Exactly 0 here, so adam10 leaves them alone; in float32 it is noise that Adam's small eps turns "
                      "into steps of up to lr: leave it out of the comparison",
    }
    head = {"torch": torch.__version__, "script": SCRIPT, "config": config}
    path = os.path.join(HERE, "translation.json")
    with open(path, "w") as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "tensors": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n")
    print("%8d translation.json" % os.path.getsize(path))


def compare_float32():
    exact, single = run(SEED)[0], run(SEED, torch.float32)[0]
    print("largest difference, float32 against float64")
    for name, t in exact.items():
        if t.dtype.is_floating_point and not name.startswith("param/"):
            d = (single[name].double() - t).abs()
            small = t[t.abs() > NOISE].abs()
            print("  %-45s %.1e (magnitudes %.1e to %.1e)" % (name, d.max(), small.min(), small.max()))


def try_seeds(n):
    for seed in range(n):
        try:
            kink, gradient = distances(*run(seed))
        except AssertionError:  # none or too many logits are clipped
            continue
        if is_clear(kink, gradient):
            print("seed %d: %.1e from a kink, smallest gradient %.1e" % (seed, kink, gradient))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--float32"]:
        compare_float32()
    elif sys.argv[1:2] == ["--seeds"] and len(sys.argv) == 3:
        try_seeds(int(sys.argv[2]))
    elif sys.argv[1:]:
        sys.exit("translation.py: unknown arguments %r: none, --float32 or --seeds N" % sys.argv[1:])
    else:
        write()
