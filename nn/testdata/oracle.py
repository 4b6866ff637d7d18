#!/usr/bin/env python3
"""Makes the oracle vectors of package nn with PyTorch: one JSON file per subject, beside this script.

    python3 nn/testdata/oracle.py

Inputs are multiples of 1/256 (of 1/32 around a thousand), so that nine digits, a float32 and a float64 all
represent them exactly. Everything computed from them is computed in float64, on one thread: a test in
float32 compares with the exact value, not with another rounding. Magnitudes below 1e-14 are float64's own
rounding noise around an exact zero and are written as 0. The files are the same, byte for byte, on every run;
rewrite them only when a convention changes or a case is added.

A file is {"torch", "script", "config", "tensors": {name: {"shape", "data"}}}, data row-major.
"""

import json
import os
import random

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = "nn/testdata/oracle.py"
NOISE = 1e-14


def grid(rng, *shape, std=1.0, mean=0.0, per_unit=256):
    """Normal numbers, rounded to multiples of 1/per_unit."""
    count = 1
    for n in shape:
        count *= n
    data = [round((mean + std * rng.gauss(0, 1)) * per_unit) / per_unit for _ in range(count)]
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


def leaves(**tensors):
    """Copies with gradients."""
    return {name.replace("__", "/"): t.clone().requires_grad_() for name, t in tensors.items()}


def write(name, config, tensors):
    def number(v):
        return 0.0 if abs(v) < NOISE else float("%.9g" % v)

    lines = []
    for key, t in tensors.items():
        t = torch.as_tensor(t).detach()
        data = [number(v) if t.dtype.is_floating_point else v for v in t.flatten().tolist()]
        value = json.dumps({"shape": list(t.shape), "data": data}, separators=(",", ":"), allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), value))
    head = {"torch": torch.__version__, "script": SCRIPT, "config": config}
    body = json.dumps(head, indent=1)[:-2]  # without the closing "\n}"
    path = os.path.join(HERE, name)
    with open(path, "w") as f:
        f.write(body + ',\n "tensors": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n")
    print("%8d %s" % (os.path.getsize(path), name))


def attention():
    """Multi-head self-attention with its projections; PyTorch's own layer is the oracle."""
    rng = random.Random(1)
    batch, time, dim, heads = 2, 5, 8, 2
    lengths = [5, 3]
    x, dy = grid(rng, batch, time, dim), grid(rng, batch, time, dim)
    weights = dict(
        qkv__weight=grid(rng, dim, 3 * dim, std=0.5),
        qkv__bias=grid(rng, 3 * dim, std=0.5),
        out__weight=grid(rng, dim, dim, std=0.5),
        out__bias=grid(rng, dim, std=0.5),
    )
    unseen_future = torch.ones(time, time, dtype=torch.bool).triu(1)
    unseen_padding = torch.arange(time)[None, :] >= torch.tensor(lengths)[:, None]
    tensors = {"x": x, "dy": dy, "lengths": torch.tensor(lengths)}
    tensors.update({"param/" + n.replace("__", "/"): w for n, w in weights.items()})
    cases = {
        "none": (None, None),
        "causal": (unseen_future, None),
        "padding": (None, unseen_padding),
        "both": (unseen_future, unseen_padding),
    }
    for case, (future, padding) in cases.items():
        p = leaves(x=x, **weights)
        y, _ = F.multi_head_attention_forward(
            *[p["x"].transpose(0, 1)] * 3,  # PyTorch wants (T, N, d)
            dim, heads, p["qkv/weight"].t(), p["qkv/bias"], None, None, False, 0.0,
            p["out/weight"].t(), p["out/bias"],
            key_padding_mask=padding, need_weights=False, attn_mask=future,
        )
        y = y.transpose(0, 1)

        # The same by the formula, which checks that the layout of qkv is the one in the configuration.
        q, k, v = ((p["x"] @ p["qkv/weight"] + p["qkv/bias"])
                   .reshape(batch, time, 3, heads, dim // heads).permute(2, 0, 3, 1, 4))
        unseen = torch.zeros(batch, 1, time, time, dtype=torch.bool)
        if future is not None:
            unseen = unseen | future
        if padding is not None:
            unseen = unseen | padding[:, None, None, :]
        scores = (q @ k.transpose(2, 3) / (dim // heads) ** 0.5).masked_fill(unseen, float("-inf"))
        formula = (scores.softmax(3) @ v).transpose(1, 2).reshape(batch, time, dim) @ p["out/weight"] + p["out/bias"]
        assert (y - formula).abs().max() < 1e-13

        grads = torch.autograd.grad(y, list(p.values()), dy)
        tensors[case + "/y"] = y
        for name, g in zip(p, grads):
            tensors[case + ("/dx" if name == "x" else "/grad/" + name)] = g
    write("attention.json", {
        "batch": batch, "time": time, "dim": dim, "heads": heads,
        "cases": list(cases),
        "layout": "y = x.W + b with W (in, out); qkv's columns are q | k | v, heads side by side within each",
        "scale": "1/sqrt(dim/heads)",
        "padding": "keys at and beyond lengths[n] are unseen; queries there are computed like any other, dy is not 0 there",
        "exact_zero": "grad/qkv/bias[dim:2*dim], the keys' bias: softmax does not see it",
    }, tensors)


def layer_norm():
    rng = random.Random(2)
    rows, columns, eps = 3, 7, 1e-5
    gamma, beta = grid(rng, columns, mean=1, std=0.5), grid(rng, columns)
    tensors = {"gamma": gamma, "beta": beta}
    inputs = {
        "plain": grid(rng, rows, columns),
        "large-mean": grid(rng, rows, columns, mean=1000, per_unit=32),
        "small": grid(rng, rows, columns, std=0.01),  # eps matters: a variance near 1e-4
        "constant": torch.tensor([0.0, 1.5, -8.0], dtype=torch.float64)[:, None].repeat(1, columns),
    }
    for case, x in inputs.items():
        dy = grid(rng, rows, columns)
        p = leaves(x=x, gamma=gamma, beta=beta)
        y = F.layer_norm(p["x"], (columns,), p["gamma"], p["beta"], eps)
        dx, dgamma, dbeta = torch.autograd.grad(y, list(p.values()), dy)
        tensors.update({case + "/" + n: t for n, t in
                        dict(x=x, dy=dy, y=y, dx=dx, dgamma=dgamma, dbeta=dbeta).items()})
    write("layernorm.json", {
        "eps": eps, "cases": list(inputs), "variance": "biased (divided by the columns), eps inside the root",
    }, tensors)


def rms_norm():
    rng = random.Random(14)
    rows, columns, eps = 3, 7, 1e-5
    gamma = grid(rng, columns, mean=1, std=0.5)
    tensors = {"gamma": gamma}
    inputs = {
        "plain": grid(rng, rows, columns),
        "large-mean": grid(rng, rows, columns, mean=1000, per_unit=32),
        "small": grid(rng, rows, columns, std=0.01),
        "zero": torch.zeros(rows, columns, dtype=torch.float64),
    }
    for case, x in inputs.items():
        dy = grid(rng, rows, columns)
        p = leaves(x=x, gamma=gamma)
        y = p["x"] * torch.rsqrt(p["x"].pow(2).mean(-1, keepdim=True) + eps) * p["gamma"]
        dx, dgamma = torch.autograd.grad(y, list(p.values()), dy)
        tensors.update({case + "/" + n: t for n, t in dict(x=x, dy=dy, y=y, dx=dx, dgamma=dgamma).items()})
    write("rmsnorm.json", {"eps": eps, "cases": list(inputs)}, tensors)


def gated():
    """A gated feed-forward layer, down(silu(gate(x)) * up(x))."""
    rng = random.Random(15)
    rows, dim, hidden = 4, 6, 9
    x, dy = grid(rng, rows, dim, std=2), grid(rng, rows, dim)
    weights = {"gate__weight": grid(rng, hidden, dim), "up__weight": grid(rng, hidden, dim), "down__weight": grid(rng, dim, hidden)}
    p = leaves(x=x, **weights)
    y = F.linear(F.silu(F.linear(p["x"], p["gate/weight"])) * F.linear(p["x"], p["up/weight"]), p["down/weight"])
    grads = torch.autograd.grad(y, list(p.values()), dy)
    tensors = {"x": x, "gated/dy": dy, "gated/y": y}
    tensors.update({"param/" + n.replace("__", "/"): w for n, w in weights.items()})
    tensors.update({"gated/dx" if n == "x" else "gated/grad/" + n: g for n, g in zip(p, grads)})
    write("gated.json", {"width": dim, "hidden": hidden}, tensors)


def grouped():
    """Grouped-query attention with rotary positions in halves, as in published LLaMA code."""
    rng = random.Random(16)
    batch, time, dim, heads, width, theta = 2, 4, 6, 4, 4, 100.0
    x, dy = grid(rng, batch, time, dim), grid(rng, batch, time, dim)
    angle = torch.arange(time, dtype=torch.float64)[:, None] * theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    cos, sin = torch.cat([angle, angle], 1).cos(), torch.cat([angle, angle], 1).sin()

    def rotated(t):
        return t * cos + torch.cat([-t[..., width // 2:], t[..., :width // 2]], -1) * sin

    tensors = {"x": x, "dy": dy}
    cases = {"1": 1, "2": 2, "4": 4, "2/causal": 2}
    for case, kv in cases.items():
        weights = {"q__weight": grid(rng, heads * width, dim, std=0.5), "k__weight": grid(rng, kv * width, dim, std=0.5),
                   "v__weight": grid(rng, kv * width, dim, std=0.5), "out__weight": grid(rng, dim, heads * width, std=0.5)}
        p = leaves(x=x, **weights)
        q, k, v = [F.linear(p["x"], p[n + "/weight"]).reshape(batch, time, -1, width).transpose(1, 2) for n in "qkv"]
        q, k = rotated(q), rotated(k)
        k, v = [t.repeat_interleave(heads // kv, 1) for t in (k, v)]
        scores = q @ k.transpose(2, 3) / width ** 0.5
        if "causal" in case:
            scores = scores.masked_fill(torch.ones(time, time, dtype=torch.bool).triu(1), float("-inf"))
        y = F.linear((scores.softmax(3) @ v).transpose(1, 2).reshape(batch, time, -1), p["out/weight"])
        grads = torch.autograd.grad(y, list(p.values()), dy)
        tensors.update({case + "/param/" + n.replace("__", "/"): w for n, w in weights.items()})
        tensors[case + "/y"] = y
        tensors.update({case + ("/dx" if n == "x" else "/grad/" + n): g for n, g in zip(p, grads)})
    write("grouped.json", {"time": time, "dim": dim, "heads": heads, "width": width, "theta": theta, "cases": cases}, tensors)


def cross_entropy():
    rng = random.Random(3)
    rows, classes, ignored = 5, 11, -1
    targets = torch.tensor([3, 0, ignored, 10, 7])
    count = int((targets != ignored).sum())
    inputs = {"plain": grid(rng, rows, classes, std=2), "large": grid(rng, rows, classes, std=40)}
    smoothings = {"smoothing0": 0.0, "smoothing0.1": 0.1}
    tensors = {"targets": targets}
    for name, logits in inputs.items():
        tensors[name + "/logits"] = logits
        for suffix, smoothing in smoothings.items():
            z = logits.clone().requires_grad_()
            loss = F.cross_entropy(z, targets, ignore_index=ignored, label_smoothing=smoothing, reduction="none")
            goal = F.one_hot(targets.clamp(min=0), classes).double() * (1 - smoothing) + smoothing / classes
            formula = -(goal * z.log_softmax(1)).sum(1) * (targets != ignored)
            assert (loss - formula).abs().max() < 1e-12
            mean = loss.sum() / count
            case = name + "/" + suffix
            tensors[case + "/loss"] = loss
            tensors[case + "/mean"] = mean
            tensors[case + "/dlogits"], = torch.autograd.grad(mean, z)
    write("crossentropy.json", {
        "classes": classes, "ignored": ignored, "count": count, "inputs": list(inputs), "smoothing": smoothings,
        "target_distribution": "(1-s) on the target plus s/classes on every class, the target included",
        "dlogits": "gradient of sum(loss)/count, the scale 1/count applied",
    }, tensors)


def activation():
    rng = random.Random(4)
    limit = 2.5
    special = [0.0, limit, -limit, limit + 1 / 256, -limit - 1 / 256, 1 / 256, -1 / 256, 5.0, -5.0, 12.0, -12.0, 100.0, -100.0]
    x = torch.cat([torch.tensor(special, dtype=torch.float64), grid(rng, 24, std=2)])
    dy = grid(rng, *x.shape)
    functions = {
        "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
        "relu": F.relu,
        "clip": lambda v: v.clamp(-limit, limit),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softplus": F.softplus,
    }
    tensors = {"x": x, "dy": dy}
    for name, f in functions.items():
        v = x.clone().requires_grad_()
        y = f(v)
        tensors[name + "/y"] = y
        tensors[name + "/dx"], = torch.autograd.grad(y, v, dy)
    write("activation.json", {
        "limit": limit, "functions": list(functions),
        "edges": "relu'(0) = 0; clip passes the gradient where |x| <= limit, the limits included",
    }, tensors)


def shaping():
    """Functions of whole examples, (n, h, w, c): sums, copies, other shapes; and losses made of them."""
    rng = random.Random(9)
    x, positive = grid(rng, 3, 4, 5, 2), grid(rng, 3, 4, 5, 2).abs() + 1 / 256
    functions = {
        "exp": torch.exp,
        "sub": lambda v: v - positive,
        "softmax": lambda v: v.softmax(-1),
        "sum1": lambda v: v.sum(1),
        "sum13": lambda v: v.sum((1, 3)),
        "mean": lambda v: v.mean((1, 2, 3)),
        "repeat2": lambda v: v.unsqueeze(2).expand(3, 4, 6, 5, 2),
        "flatten": lambda v: v.flatten(1),
        "reshape": lambda v: v.reshape(3, 10, 4),
        "transpose13": lambda v: v.transpose(1, 3),
    }
    tensors = {"x": x, "positive": positive}
    for name, f in functions.items():
        v = x.clone().requires_grad_()
        y = f(v)
        dy = grid(rng, *y.shape)
        tensors[name + "/y"], tensors[name + "/dy"] = y, dy
        tensors[name + "/dx"], = torch.autograd.grad(y, v, dy)
    v = positive.clone().requires_grad_()
    dy = grid(rng, *v.shape)
    y = v.log()
    tensors["log/y"], tensors["log/dy"] = y, dy
    tensors["log/dx"], = torch.autograd.grad(y, v, dy)

    rows, classes = 4, 7
    logits, goal, targets = grid(rng, rows, classes), grid(rng, rows, classes), torch.tensor([3, 0, 6, 3])
    v = logits.clone().requires_grad_()
    squares = ((v - goal) ** 2).mean(1)
    tensors.update({"logits": logits, "goal": goal, "targets": targets, "squares/loss": squares})
    tensors["squares/dlogits"], = torch.autograd.grad(F.mse_loss(v, goal), v)
    v = logits.clone().requires_grad_()
    p = v.softmax(1).gather(1, targets[:, None])[:, 0]
    focal = -((1 - p) ** 2) * p.log()
    tensors["focal/loss"] = focal
    tensors["focal/dlogits"], = torch.autograd.grad(focal.mean(), v)

    index, right, rows = torch.tensor([[3, 0, 3], [1, 1, 1], [2, 3, 0]]), grid(rng, 3, 4, 2, 6), grid(rng, 3, 4, 7, 2)
    tensors.update({"index": index, "right": right, "rows": rows})
    more = {  # the value that has a gradient, and the function
        "div": (x, lambda v: v / positive),
        "div-by": (positive, lambda v: x / v),
        "sqrt": (positive, torch.sqrt),
        "max2": (x, lambda v: v.amax(2)),
        "gather": (x, lambda v: v[torch.arange(3)[:, None], index]),
        "matmul": (x, lambda v: v @ right),
        "matmul-by": (right, lambda v: x @ v),
        "matmul-t": (x, lambda v: v @ rows.transpose(2, 3)),
        "matmul-t-by": (rows, lambda v: x @ v.transpose(2, 3)),
    }
    for name, (value, f) in more.items():
        v = value.clone().requires_grad_()
        y = f(v)
        dy = grid(rng, *y.shape)
        tensors[name + "/y"], tensors[name + "/dy"] = y, dy
        tensors[name + "/dx"], = torch.autograd.grad(y, v, dy)
    write("shaping.json", {
        "functions": list(functions) + ["log"] + list(more), "focal": "Lin et al. 2017, equation 4, with gamma 2",
        "dlogits": "gradient of the mean over the rows",
    }, tensors)


def optimizers():
    rng = random.Random(5)
    steps, size, l2 = 10, 6, 0.05
    start = grid(rng, size)
    sizes = torch.tensor([1, 1, 1 / 8, 4, 1, 0], dtype=torch.float64)  # the last weight never has a gradient
    gradients = (grid(rng, steps, size) * sizes * 256).round() / 256
    rates = {
        "constant": [1.0] * steps,
        # Shows whether the rate is inside or outside the velocity.
        "varying": [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125],
    }
    kinds = {
        "sgd": (torch.optim.SGD, dict(lr=0.125)),
        "momentum": (torch.optim.SGD, dict(lr=0.125, momentum=0.9)),
        "nesterov": (torch.optim.SGD, dict(lr=0.125, momentum=0.9, nesterov=True)),
        "adam": (torch.optim.Adam, dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8)),
        "adamw": (torch.optim.AdamW, dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)),
    }
    tensors = {"start": start, "gradients": gradients}
    tensors.update({"rate/" + n: torch.tensor(r, dtype=torch.float64) for n, r in rates.items()})
    for kind, (make, options) in kinds.items():
        for regular in ("plain", "l2"):
            for rate, factors in rates.items():
                w = start.clone().requires_grad_()
                torch_l2 = {"weight_decay": l2} if regular == "l2" and kind != "adamw" else {}
                optimizer = make([w], **options, **torch_l2)
                after = []
                for factor, g in zip(factors, gradients):
                    optimizer.param_groups[0]["lr"] = options["lr"] * factor
                    w.grad = g.clone()
                    if regular == "l2" and kind == "adamw":  # PyTorch's AdamW has no L2: added to the gradient here
                        w.grad += l2 * w.detach()
                    optimizer.step()
                    after.append(w.detach().clone())
                tensors["%s/%s/%s/weights" % (kind, regular, rate)] = torch.stack(after)

    clip = clipping(rng, tensors)
    write("optimizers.json", {
        "steps": steps,
        "l2": l2,
        "kinds": {k: o for k, (_, o) in kinds.items()},
        "names": "KIND/plain|l2/constant|varying/weights (steps, size): the weights after each step; the rate of step t is lr * rate/NAME[t]",
        "l2_semantics": "l2 * w is added to the gradient, w as it was before the step; in adamw too, beside its decay",
        "momentum_semantics": "velocity = momentum * velocity + g, the rate outside: w -= rate * velocity; nesterov: w -= rate * (g + momentum * velocity)",
        "adam_semantics": "w -= rate * mHat / (sqrt(vHat) + eps); adamw first multiplies w by 1 - rate * weight_decay",
        "clip": clip,
    }, tensors)


class LARS(torch.optim.Optimizer):
    """Kumar et al., Figures 5 (scaled) and 6 (unscaled); ratio 1 for a norm of 0, as in tf.contrib.opt.LARSOptimizer."""

    def __init__(self, groups, lr, momentum, weight_decay, trust, eps, unscaled):
        super().__init__(groups, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust, eps=eps, unscaled=unscaled, skip=False))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                g, rate = w.grad, group["lr"]
                if not group["skip"]:
                    decay, norm, slope = group["weight_decay"], w.norm(), g.norm()
                    if norm > 0 and slope > 0:
                        rate = rate * group["trust"] * norm / (slope + decay * norm + group["eps"])
                    g = g + decay * w
                v = self.state[w].setdefault("velocity", torch.zeros_like(w))
                if group["unscaled"]:
                    v.mul_(group["momentum"]).add_(rate * g)
                    w.sub_(v)
                else:
                    v.mul_(group["momentum"]).add_(g)
                    w.sub_(rate * v)


def lars():
    rng = random.Random(6)
    steps = 10
    shapes = {"dense": (4, 3), "row": (5,), "zero": (3,), "skipped": (4,)}
    start = {n: grid(rng, *s) for n, s in shapes.items()}
    start["zero"] *= 0
    gradients = {n: grid(rng, steps, *s) for n, s in shapes.items()}
    gradients["row"][3] *= 0
    rates = [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]
    cases = {
        "scaled": dict(momentum=0.9, weight_decay=0.0, trust=0.125, eps=0.0, unscaled=False),
        "unscaled": dict(momentum=0.9, weight_decay=0.0, trust=0.125, eps=0.0, unscaled=True),
        "scaled-decay": dict(momentum=0.9, weight_decay=0.05, trust=0.125, eps=0.0, unscaled=False),
        "unscaled-decay": dict(momentum=0.929, weight_decay=0.05, trust=0.125, eps=0.25, unscaled=True),
    }
    tensors = {"rate": torch.tensor(rates, dtype=torch.float64)}
    tensors.update({"start/" + n: t for n, t in start.items()})
    tensors.update({"gradients/" + n: t for n, t in gradients.items()})
    for case, options in cases.items():
        w = {n: t.clone().requires_grad_() for n, t in start.items()}
        optimizer = LARS([{"params": [w[n] for n in shapes if n != "skipped"]}, {"params": [w["skipped"]], "skip": True}], lr=0.0, **options)
        after = {n: [] for n in shapes}
        for step, rate in enumerate(rates):
            for group in optimizer.param_groups:
                group["lr"] = rate
            for n in shapes:
                w[n].grad = gradients[n][step].clone()
            optimizer.step()
            for n in shapes:
                after[n].append(w[n].detach().clone())
        tensors.update({"%s/%s" % (case, n): torch.stack(a) for n, a in after.items()})
    write("lars.json", {
        "cases": cases,
        "names": "CASE/TENSOR (steps, shape): the tensor after each step, at the rate of that step; zero begins from 0, skipped has neither ratio nor weight decay",
    }, tensors)


def clipping(rng, tensors):
    """Gradient-norm clipping over several tensors, as in PyTorch but without its epsilon."""
    shapes = {"a": (3, 4), "b": (5,), "c": (1,)}
    given = {n: grid(rng, *s) for n, s in shapes.items()}
    cases = {"above": 1.0, "below": 100.0}
    tensors.update({"clip/gradient/" + n: g for n, g in given.items()})
    norm = sum(g.square().sum() for g in given.values()).sqrt()
    tensors["clip/norm"] = norm
    for case, limit in cases.items():
        parameters = []
        for g in given.values():
            p = torch.zeros_like(g).requires_grad_()
            p.grad = g.clone()
            parameters.append(p)
        reported = torch.nn.utils.clip_grad_norm_(parameters, limit)
        assert (reported - norm).abs() < 1e-12
        for n, p in zip(given, parameters):
            tensors["clip/%s/torch/%s" % (case, n)] = p.grad
        scale = min(1.0, limit / norm.item())
        for n, g in given.items():
            tensors["clip/%s/exact/%s" % (case, n)] = g * scale
    return {
        "tensors": list(shapes), "max_norm": cases,
        "torch": "scale = min(1, max_norm / (norm + 1e-6))", "exact": "scale = min(1, max_norm / norm)",
    }


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def same(size, kernel, stride):
    """TensorFlow's SAME: padding before and after."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def padded(x, kernel, stride, padding):
    """Images (N, C, H, W) with "same", "valid" or (top, bottom, left, right) padding with zeros; a negative padding crops."""
    if padding == "same":
        top, bottom = same(x.shape[2], kernel[0], stride[0])
        left, right = same(x.shape[3], kernel[1], stride[1])
    elif padding == "valid":
        top = bottom = left = right = 0
    else:
        top, bottom, left, right = padding
    return F.pad(x, (left, right, top, bottom))


def convolution():
    """Kernels of all models, both strides, odd sizes; images (N, H, W, C), weights (H, W, in, out)."""
    rng = random.Random(6)
    n, h, w, c, o = 2, 5, 7, 2, 3
    x = grid(rng, n, h, w, c)
    cases, tensors = {}, {"x": x}
    for kernel in ((1, 1), (3, 3), (1, 7), (7, 1), (7, 7), (2, 2)):
        tensors["w/%dx%d" % kernel] = grid(rng, *kernel, c, o, std=0.5)
        for stride in ((1, 1), (2, 2)):
            cases["%dx%d/%d/same" % (*kernel, stride[0])] = (kernel, stride, "same")
    cases["3x3/1/valid"] = ((3, 3), (1, 1), "valid")
    cases["3x3/2/padded"] = ((3, 3), (2, 2), (1, 1, 1, 1))
    cases["3x3/mixed"] = ((3, 3), (1, 2), (0, 2, 1, 0))
    cases["1x1/2/shifted"] = ((1, 1), (2, 2), (-1, 1, -1, 1))
    config = {}
    for name, (kernel, stride, padding) in cases.items():
        weight = tensors["w/%dx%d" % kernel]
        leaf = leaves(x=x, w=weight)
        y = F.conv2d(padded(nchw(leaf["x"]), kernel, stride, padding), leaf["w"].permute(3, 2, 0, 1), stride=stride)
        y = nhwc(y)
        dy = grid(rng, *y.shape)
        y.backward(dy)
        tensors.update({name + "/y": y, name + "/dy": dy, name + "/dx": leaf["x"].grad, name + "/dw": leaf["w"].grad})
        config[name] = {"kernel": kernel, "stride": stride, "padding": padding}
    write("convolution.json", {"channels": [c, o], "cases": config}, tensors)


def depthwise():
    """Depthwise convolutions: images (N, H, W, C), weights (H, W, C); dilated ones are padded for the pixels that they span."""
    rng = random.Random(10)
    n, h, w, c = 2, 5, 7, 3
    x = grid(rng, n, h, w, c)
    cases = {
        "3x3/1/same": ((3, 3), (1, 1), 1, "same"), "3x3/2/same": ((3, 3), (2, 2), 1, "same"),
        "5x5/1/same": ((5, 5), (1, 1), 1, "same"), "7x7/2/same": ((7, 7), (2, 2), 1, "same"),
        "1x7/1/same": ((1, 7), (1, 1), 1, "same"), "3x3/1/valid": ((3, 3), (1, 1), 1, "valid"),
        "3x3/2/padded": ((3, 3), (2, 2), 1, (1, 1, 1, 1)), "3x3/mixed": ((3, 3), (1, 2), 1, (0, 2, 1, 0)),
        "5x5/1/dilated": ((5, 5), (1, 1), 2, "same"), "3x3/2/dilated": ((3, 3), (2, 2), 2, "same"), "2x3/3/dilated": ((2, 3), (3, 2), 3, "same"),
        "1x1/2/shifted": ((1, 1), (2, 2), 1, (-1, 1, -1, 1)),
    }
    tensors, config = {"x": x}, {}
    for name, (kernel, stride, dilation, padding) in cases.items():
        weight = grid(rng, *kernel, c, std=0.5)
        leaf = leaves(x=x, w=weight)
        span = tuple((k - 1) * dilation + 1 for k in kernel)
        y = nhwc(F.conv2d(padded(nchw(leaf["x"]), span, stride, padding), leaf["w"].permute(2, 0, 1)[:, None],
                          stride=stride, dilation=dilation, groups=c))
        dy = grid(rng, *y.shape)
        y.backward(dy)
        tensors.update({name + "/w": weight, name + "/y": y, name + "/dy": dy, name + "/dx": leaf["x"].grad, name + "/dw": leaf["w"].grad})
        config[name] = {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding}
    write("depthwise.json", {"channels": c, "cases": config}, tensors)


def lstm():
    """One direction and both, with and without lengths, which PyTorch takes as packed sequences."""
    rng = random.Random(11)
    batch, time, width, hidden, lengths = 3, 6, 5, 7, [4, 6, 1]
    x = grid(rng, batch, time, width)
    tensors = {"x": x, "lengths": torch.tensor(lengths)}
    ways = {}
    for way in ("forward", "backward"):
        ways[way] = {"input/weight": grid(rng, width, 4 * hidden, std=0.5), "input/bias": grid(rng, 4 * hidden, std=0.5),
                     "recurrent/weight": grid(rng, hidden, 4 * hidden, std=0.5)}
        tensors.update({"param/%s/%s" % (way, n): w for n, w in ways[way].items()})
    cases = [case + padded for case in ("forward", "both") for padded in ("", "/padded")]
    for case in cases:
        both, padded = case.startswith("both"), case.endswith("padded")
        net = torch.nn.LSTM(width, hidden, batch_first=True, bidirectional=both, dtype=torch.float64)
        with torch.no_grad():
            for way, suffix in (("forward", "_l0"), ("backward", "_l0_reverse"))[:1 + both]:
                getattr(net, "weight_ih" + suffix).copy_(ways[way]["input/weight"].t())
                getattr(net, "weight_hh" + suffix).copy_(ways[way]["recurrent/weight"].t())
                getattr(net, "bias_ih" + suffix).copy_(ways[way]["input/bias"])
                getattr(net, "bias_hh" + suffix).zero_()
        leaf = x.clone().requires_grad_()
        if padded:
            packed = torch.nn.utils.rnn.pack_padded_sequence(leaf, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True, total_length=time)
        else:
            y, _ = net(leaf)
        dy = grid(rng, *y.shape)
        y.backward(dy)
        tensors.update({case + "/y": y, case + "/dy": dy, case + "/dx": leaf.grad})
        for way, suffix in (("forward", "_l0"), ("backward", "_l0_reverse"))[:1 + both]:
            at = "%s/grad/%s/" % (case, way)
            tensors[at + "input/weight"] = getattr(net, "weight_ih" + suffix).grad.t()
            tensors[at + "recurrent/weight"] = getattr(net, "weight_hh" + suffix).grad.t()
            tensors[at + "input/bias"] = getattr(net, "bias_ih" + suffix).grad
    write("lstm.json", {"batch": batch, "time": time, "width": width, "hidden": hidden, "cases": cases,
                        "layout": "gates side by side in the order i, f, g, o; W (in, out)"}, tensors)


def pools():
    """Max and average pools; padding takes no part and does not count."""
    rng = random.Random(7)
    x = grid(rng, 2, 5, 7, 3)
    cases = {
        "3x3/1/same": ((3, 3), (1, 1), "same"), "3x3/2/same": ((3, 3), (2, 2), "same"),
        "2x2/1/same": ((2, 2), (1, 1), "same"), "2x2/2/same": ((2, 2), (2, 2), "same"),
        "3x3/2/padded": ((3, 3), (2, 2), (1, 1, 1, 1)), "5x5/3/valid": ((5, 5), (3, 3), "valid"),
    }
    tensors, config = {"x": x}, {}
    for name, (kernel, stride, padding) in cases.items():
        for kind in ("max", "average"):
            leaf = x.clone().requires_grad_()
            image = nchw(leaf)
            if kind == "max":
                outside = padded(torch.ones_like(image), kernel, stride, padding) == 0
                y = F.max_pool2d(padded(image, kernel, stride, padding).masked_fill(outside, -float("inf")), kernel, stride)
            else:
                area = kernel[0] * kernel[1]
                count = F.avg_pool2d(padded(torch.ones_like(image), kernel, stride, padding), kernel, stride) * area
                y = F.avg_pool2d(padded(image, kernel, stride, padding), kernel, stride) * area / count
            y = nhwc(y)
            dy = grid(rng, *y.shape)
            y.backward(dy)
            tensors.update({"%s/%s/%s" % (name, kind, k): v for k, v in (("y", y), ("dy", dy), ("dx", leaf.grad))})
        config[name] = {"kernel": kernel, "stride": stride, "padding": padding}
    leaf = x.clone().requires_grad_()
    y = leaf.mean(dim=(1, 2))
    dy = grid(rng, *y.shape)
    y.backward(dy)
    tensors.update({"global/y": y, "global/dy": dy, "global/dx": leaf.grad})
    write("pools.json", {"cases": config}, tensors)


def batch_norm():
    """Training, with and without a ReLU after it, including channels around a thousand and nearly constant ones, and evaluation."""
    rng = random.Random(8)
    rows, channels, eps, momentum = (3, 2, 3), 5, 1e-3, 0.75
    x = grid(rng, *rows, channels)
    x[..., 1] = x[..., 1] * 8 + 1000
    x[..., 2] = x[..., 2] / 256 + 0.5
    x[..., 3] = 2
    gamma, beta = grid(rng, channels, std=0.5, mean=1.0), grid(rng, channels)
    mean, variance = grid(rng, channels), grid(rng, channels).abs() + 1
    tensors = {"x": x, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    for name in ("plain", "relu"):
        leaf = leaves(x=x, gamma=gamma, beta=beta)
        moving = [mean.clone(), variance.clone()]
        y = nhwc(F.batch_norm(nchw(leaf["x"]), *moving, leaf["gamma"], leaf["beta"], True, 1 - momentum, eps))
        y = y.relu() if name == "relu" else y
        dy = grid(rng, *y.shape)
        y.backward(dy)
        tensors.update({name + "/y": y, name + "/dy": dy})
        tensors.update({"%s/d%s" % (name, k): v.grad for k, v in leaf.items()})
        evaluated = nhwc(F.batch_norm(nchw(x), mean, variance, gamma, beta, False, 0, eps))
        tensors[name + "/evaluated"] = evaluated.relu() if name == "relu" else evaluated
    tensors["moved/mean"], tensors["moved/variance"] = moving
    write("batchnorm.json", {"eps": eps, "momentum": momentum, "variance": "moved by the unbiased estimate"}, tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for make in (attention, layer_norm, rms_norm, gated, grouped, cross_entropy, activation, shaping, optimizers, lars, convolution, depthwise, lstm, pools, batch_norm):
        make()
