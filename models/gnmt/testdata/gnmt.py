#!/usr/bin/env python3
"""Makes gnmt.json with PyTorch: a whole small GNMT, its logits, its loss and all gradients, in float64.

    python3 models/gnmt/testdata/gnmt.py

The model, as rnn_translator of github.com/mlcommons/training describes it:
    encoder: x = table[source]; layer 1 in both directions; layer 2 of both; further ones with x = layer(x) + x
    decoder: h = layer 1 of table[target]; a = attention of h to the encoder's states, by scores
        g v / |v| . tanh(Wq h + b + Wk m); layer 2 of [h, a]; further ones with h = layer([h, a]) + h
    logits = h W' + b
    loss = mean over targets other than -1 of the cross-entropy with label smoothing
Sources are packed by their lengths; target tokens beyond a length are masked. There is no dropout.

Weights are so large that sources differ and attention is uneven: else its gradients are differences of nearly equal terms.
Numbers are multiples of 1/256, made and written as in models/transformer/testdata/lm.py; the file is the same, byte for
byte, on every run.
"""

import json
import os
import random

import torch
import torch.nn.functional as F
from torch.nn.utils import rnn

SCRIPT = "models/gnmt/testdata/gnmt.py"
VOCAB, DIM, LAYERS = 11, 6, 3
BATCH, SOURCE_TIME, TARGET_TIME = 4, 6, 5
SOURCE_LENGTHS = [4, 6, 1, 5]
TARGET_LENGTHS = [5, 1, 4, 3]
SMOOTHING, MASKED = 0.1, -1
SEED = 7  # of the first dozen the one whose gradients in PyTorch's own float32 are nearest to those in float64


def grid(rng, *shape, std=1.0):
    n = 1
    for d in shape:
        n *= d
    return torch.tensor([round(256 * rng.gauss(0, std)) / 256 for _ in range(n)], dtype=torch.float64).reshape(shape)


def initial():
    rng = random.Random(SEED)
    p = {"embedding/source/table": grid(rng, VOCAB, DIM)}

    def lstm(name, width):
        p[name + "/input/weight"] = grid(rng, width, 4 * DIM, std=0.8)
        p[name + "/input/bias"] = grid(rng, 4 * DIM, std=0.8)
        p[name + "/recurrent/weight"] = grid(rng, DIM, 4 * DIM, std=0.8)

    lstm("encoder1/lstm/forward", DIM)
    lstm("encoder1/lstm/backward", DIM)
    for layer in range(2, LAYERS + 1):
        lstm("encoder%d/lstm" % layer, 2 * DIM if layer == 2 else DIM)
    lstm("decoder1/lstm", DIM)
    p["decoder1/attention/query/weight"] = grid(rng, DIM, DIM)
    p["decoder1/attention/query/bias"] = grid(rng, DIM)
    p["decoder1/attention/memory/weight"] = grid(rng, DIM, DIM)
    p["decoder1/attention/vector"] = grid(rng, DIM)
    p["decoder1/attention/scale"] = torch.tensor([3.25], dtype=torch.float64)
    for layer in range(2, LAYERS + 1):
        lstm("decoder%d/lstm" % layer, 2 * DIM)
    p["softmax/weight"] = grid(rng, VOCAB, DIM, std=0.7)
    p["softmax/bias"] = grid(rng, VOCAB, std=0.3)
    return p


def scan(p, name, x, both=False, lengths=None):
    """What torch.nn.LSTM calls, with the parameters of name."""
    weights = []
    for way in [name + "/forward", name + "/backward"] if both else [name]:
        weights += [p[way + "/input/weight"].t(), p[way + "/recurrent/weight"].t(), p[way + "/input/bias"], torch.zeros(4 * DIM, dtype=x.dtype)]
    state = (torch.zeros(1 + both, x.shape[0], DIM, dtype=x.dtype),) * 2
    if lengths is None:
        return torch._VF.lstm(x, state, weights, True, 1, 0.0, True, both, True)[0]
    packed = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    y = torch._VF.lstm(packed.data, packed.batch_sizes, state, weights, True, 1, 0.0, True, both)[0]
    y = rnn.PackedSequence(y, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
    return rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0]


def logits_of(p, source, target):
    x = scan(p, "encoder1/lstm", F.embedding(source, p["embedding/source/table"]), both=True, lengths=SOURCE_LENGTHS)
    x = scan(p, "encoder2/lstm", x, lengths=SOURCE_LENGTHS)
    for layer in range(3, LAYERS + 1):
        x = x + scan(p, "encoder%d/lstm" % layer, x, lengths=SOURCE_LENGTHS)
    h = scan(p, "decoder1/lstm", F.embedding(target, p["embedding/source/table"]))
    at = "decoder1/attention/"
    q = h @ p[at + "query/weight"] + p[at + "query/bias"]
    k = x @ p[at + "memory/weight"]
    v = p[at + "vector"] / p[at + "vector"].norm() * p[at + "scale"]
    scores = (q[:, :, None] + k[:, None]).tanh() @ v
    padding = torch.arange(SOURCE_TIME)[None, :] >= torch.tensor(SOURCE_LENGTHS)[:, None]
    found = scores.masked_fill(padding[:, None, :], float("-inf")).softmax(2) @ x
    for layer in range(2, LAYERS + 1):
        y = scan(p, "decoder%d/lstm" % layer, torch.cat([h, found], 2))
        h = y if layer == 2 else y + h
    return h @ p["softmax/weight"].t() + p["softmax/bias"]


def main():
    torch.set_num_threads(1)
    rng = random.Random(21)
    draw = lambda time: torch.tensor([[rng.randrange(VOCAB) for _ in range(time)] for _ in range(BATCH)])
    source, text = draw(SOURCE_TIME), draw(TARGET_TIME)
    shifted = torch.cat([torch.zeros((BATCH, 1), dtype=torch.int64), text[:, :-1]], 1)
    beyond = torch.arange(TARGET_TIME)[None, :] >= torch.tensor(TARGET_LENGTHS)[:, None]
    targets = text.masked_fill(beyond, MASKED)
    p = {name: w.requires_grad_() for name, w in initial().items()}
    logits = logits_of(p, source, shifted)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=MASKED, label_smoothing=SMOOTHING)
    loss.backward()
    tensors = {"source": source, "source_lengths": torch.tensor(SOURCE_LENGTHS), "shifted_targets": shifted, "targets": targets,
               "logits": logits, "loss": loss.reshape(1)}
    for name, w in p.items():
        tensors["param/" + name], tensors["grad/" + name] = w, w.grad
    config = {"vocab": VOCAB, "dim": DIM, "layers": LAYERS, "source_time": SOURCE_TIME, "target_time": TARGET_TIME, "batch": BATCH, "smoothing": SMOOTHING}
    number = lambda x: int(x) if x == int(x) else float("%.14g" % x)
    text = json.dumps({"script": SCRIPT, "config": config, "tensors": {
        name: {"shape": list(x.shape), "data": [number(v) for v in x.detach().flatten().tolist()]} for name, x in tensors.items()}})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gnmt.json"), "w") as f:
        f.write(text.replace('"tensors": {', '"tensors": {\n').replace("]}, ", "]},\n") + "\n")


if __name__ == "__main__":
    main()
