#!/usr/bin/env python3
"""Times a training step in PyTorch on the CPU, the peer of `gpipebench bench`: same model, same work.

    python3 bench/peers/pytorch.py --threads 2 --steps 10 --warmup 3

Prints one line of JSON. float32, SGD with momentum 0.9, no dropout, fixed synthetic data; a step is forward, loss,
backward and update, and ends with the loss read. Linux only; on Debian: apt install python3-torch libopenblas0.

The peer gets every advantage that its environment offers, and the line says which:
  - A real BLAS. Without OpenBLAS (or MKL, in PyTorch's own wheels) in the process no time is printed.
  - OpenBLAS' kernels for this processor. A release older than the processor may take it for one without AVX
    ("Prescott": a quarter of the speed) or with shorter vectors; then OPENBLAS_CORETYPE names the best that the
    processor's flags allow, and the line has it.
  - A malloc that keeps what is freed; tensors as large as the logits are otherwise mapped and zeroed anew each step.
  - The fastest of the variants below, found by a short trial of each; --variant names one instead.
Of these, a variable that the caller's environment sets is left alone.
"""

import argparse
import ctypes
import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

NAME = "pytorch.py"


# Models, by the file that has them; each file imports PyTorch.
MODELS = {
    "transformer-lm": "pytorch_text", "llama": "pytorch_text", "gnmt": "pytorch_text",
    "resnet50": "pytorch_images", "resnet101": "pytorch_images", "amoebanetd": "pytorch_images",
}


def built(args):
    """The module, and a function from nothing to the loss of one forward pass."""
    return getattr(importlib.import_module(MODELS[args.model]), args.model.replace("-", "_"))(args)


def of_images(args):
    return MODELS[args.model] == "pytorch_images"


def arguments():
    p = argparse.ArgumentParser(prog=NAME, description="Times a training step in PyTorch on the CPU; prints one line of JSON.")
    p.add_argument("--model", choices=sorted(MODELS), default="transformer-lm")
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--dim", type=int, default=256)
    p.add_argument("--ff", type=int, default=1024)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--vocab", type=int, default=8192)
    p.add_argument("--filters", type=int, default=64, help="of amoebanetd")
    p.add_argument("--image", type=int, default=224, help="height and width of images")
    p.add_argument("--classes", type=int, default=1000)
    p.add_argument("--kv-heads", type=int, default=0, help="of llama; 0: as many as heads")
    p.add_argument("--head-dim", type=int, default=0, help="of llama; 0: dim/heads")
    p.add_argument("--rope-theta", type=float, default=0, help="of llama; 0: 10000")
    p.add_argument("--tied", choices=["none", "softmax", "all"], nargs="?", const="softmax", default="none")
    p.add_argument("--gelu", action="store_true", help="of transformer-lm")
    p.add_argument("--final-norm", action="store_true", help="of transformer-lm")
    p.add_argument("--weights", help="safetensors file to start from, as `train --save` writes it")
    p.add_argument("--trial-steps", type=int, default=4, help="steps of each variant's trial")
    p.add_argument("--batch", type=int, default=16, help="examples in a mini-batch")
    p.add_argument("--label-smoothing", type=float, default=0.0)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=10, help="steps timed")
    p.add_argument("--warmup", type=int, default=3, help="steps before them")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--variant", choices=["best"] + list(variants(2, True)), default="best")
    args = p.parse_args()
    if args.variant != "best" and args.variant not in variants(2, of_images(args)):
        p.error("--variant %s is not for %s" % (args.variant, args.model))
    for name in ("layers", "dim", "ff", "heads", "seq", "vocab", "filters", "image", "classes", "batch", "threads", "steps", "trial_steps"):
        if getattr(args, name) < 1:
            p.error("--%s must be at least 1" % name)
    if args.warmup < 0:
        p.error("--warmup must not be negative")
    if args.dim % args.heads or args.dim % 2:
        p.error("--dim must be even and a multiple of --heads")
    return args


# The environment. Libraries read it when they load, so that every variant is a process of its own.

def processor_flags():
    with open("/proc/cpuinfo") as f:
        return set(next((line.split(":")[1].split() for line in f if line.startswith("flags")), []))


def has_avx512():
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= processor_flags()


def variants(threads, images):
    """Environments worth a trial, by name: PyTorch's own vector code, what idle threads do, the memory format of images.

    OpenMP and a pthreads OpenBLAS each have workers, and each worker spins after its work, on a core that the other's
    worker may be waiting for. Whether it is better that they sleep at once depends on machine and load.
    """
    found = {"avx2": {"ATEN_CPU_CAPABILITY": "avx2"}}
    if has_avx512():
        found["avx512"] = {"ATEN_CPU_CAPABILITY": "avx512"}
    if threads > 1:
        sleep = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_THREAD_TIMEOUT": "4"}
        found.update({name + "-sleep": {**env, **sleep} for name, env in list(found.items())})
    if images:  # the other is contiguous, channels first
        found.update({name + "-channels_last": env for name, env in list(found.items())})
    return found


def openblas():
    """The OpenBLAS in this process, or None."""
    with open("/proc/self/maps") as maps:
        path = next((line.split(None, 5)[5].strip() for line in maps if "libopenblas" in line), None)
    if path is None:
        return None
    library = ctypes.CDLL(path)
    for f in (library.openblas_get_corename, library.openblas_get_config):
        f.restype = ctypes.c_char_p
    return library


def better_core():
    """The OPENBLAS_CORETYPE to ask for where OpenBLAS takes kernels with shorter vectors than the processor has, else None."""
    try:
        ctypes.CDLL("libblas.so.3")  # what Debian's PyTorch loads
    except OSError:
        return None
    library = openblas()
    if library is None:
        return None
    if has_avx512():
        best, as_good = "SkylakeX", ("cooperlake", "sapphirerapids")
    elif {"avx2", "fma"} <= processor_flags():
        best, as_good = "Haswell", ("zen", "excavator")
    else:
        return None
    return None if library.openblas_get_corename().decode().lower() in (best.lower(), *as_good) else best


def environment(args):
    env = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=%d" % (1 << 40)}
    core = better_core()
    if core:
        env["OPENBLAS_CORETYPE"] = core
    env.update(os.environ)
    env.update(OMP_NUM_THREADS=str(args.threads), OPENBLAS_NUM_THREADS=str(args.threads))
    return env


def run_variant(name, env, *more):
    """The line of one variant, a child of this process."""
    child = subprocess.run([sys.executable, *sys.argv, "--variant", name, *more], stdout=subprocess.PIPE, text=True,
                           env={**variants(2, True)[name], **env, "GPIPEBENCH_PEER_VARIANT": name})
    if child.returncode:
        sys.exit(child.returncode)
    return json.loads(child.stdout)


def choose(args):
    """Runs the variant asked for, or tries all and runs the fastest."""
    env, trials = environment(args), {}
    if args.variant == "best":
        for name in variants(args.threads, of_images(args)):
            trial = run_variant(name, env, "--steps", str(args.trial_steps), "--warmup", str(min(args.warmup, 1)))
            trials[name] = trial["step_seconds"]["min"]
        args.variant = min(trials, key=trials.get)
    line = run_variant(args.variant, env)
    line["trials_min_seconds"] = trials
    print(json.dumps(line))


# The measurement.

def blas_in_use(torch, threads):
    """Describes the BLAS in this process, after setting and checking its threads; exits where it is no real one."""
    library = openblas()
    if library is None:
        if torch.backends.mkl.is_available():
            return "MKL"
        sys.exit("%s: PyTorch found no OpenBLAS, its times would mean nothing: install libopenblas0" % NAME)
    library.openblas_set_num_threads(threads)
    if library.openblas_get_num_threads() != threads:
        sys.exit("%s: OpenBLAS runs %d threads, not %d" % (NAME, library.openblas_get_num_threads(), threads))
    words = library.openblas_get_config().decode().split()
    kind = {0: "sequential", 1: "pthreads", 2: "openmp"}[library.openblas_get_parallel()]
    named = ["OPENBLAS_CORETYPE=" + os.environ["OPENBLAS_CORETYPE"]] if "OPENBLAS_CORETYPE" in os.environ else []
    return " ".join([*words[:2], library.openblas_get_corename().decode(), kind, *named])


def machine_busy_seconds():
    """Processor seconds that anything on this machine has spent working since it started."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def summary(samples):
    return {"median": statistics.median(samples), "min": min(samples), "all": [round(s, 6) for s in samples]}


def measure(args):
    import torch

    torch.set_num_threads(args.threads)
    if torch.get_num_threads() != args.threads:
        sys.exit("%s: PyTorch runs %d threads, not %d" % (NAME, torch.get_num_threads(), args.threads))
    torch.manual_seed(args.seed)
    torch.ones(2, 2) @ torch.ones(2, 2)  # the BLAS is loaded by now
    blas = blas_in_use(torch, args.threads)

    model, loss_of = built(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    for _ in range(args.warmup):
        step()
    wall, own = [], []
    busy, began, own_began = machine_busy_seconds(), time.perf_counter(), time.process_time()
    for _ in range(args.steps):
        start, own_start = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - start)
        own.append(time.process_time() - own_start)
    others = machine_busy_seconds() - busy - (time.process_time() - own_began)

    if not all(map(math.isfinite, losses)):
        sys.exit("%s: the loss is not finite after %d steps: lower --lr" % (NAME, len(losses)))
    capability = next((line.split()[-1] for line in torch.__config__.show().splitlines() if "CPU capability" in line), "")
    print(json.dumps({
        "framework": "pytorch", "version": torch.__version__, "blas": blas, "capability": capability,
        "variant": args.variant, "model": args.model, "params": sum(p.numel() for p in model.parameters()),
        "threads": args.threads,
        "step_seconds": summary(wall),
        "cpu_seconds": summary(own),  # of this process, over all its threads: spinning counts
        "other_cores_busy": round(max(0.0, others) / (time.perf_counter() - began), 2),  # should be near 0
        "losses": [losses[0], losses[-1]],
        "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "environment": {k: v for k, v in sorted(os.environ.items())
                        if k.startswith(("OMP_", "GOMP_", "OPENBLAS_", "MKL_", "KMP_", "ATEN_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"))},
        "flags": {k: v for k, v in vars(args).items() if k not in ("variant", "model", "threads")},
    }))


if __name__ == "__main__":
    flags = arguments()
    if os.environ.get("GPIPEBENCH_PEER_VARIANT") == flags.variant:
        measure(flags)
    else:
        choose(flags)
