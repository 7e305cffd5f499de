#!/usr/bin/env python3
"""Host time of one call from Python, on the CPU target or a GPU: python3 bench/python_call.py [cpu | cuda]

The case is RMSNorm [1, s, 2880] at s = 1 (and a tiny one of 64 numbers, where the arithmetic is nothing), through eager PyTorch,
torch.compile where it works, and loopwright.compile with its output allocated and given. Contenders run in turn in every round;
the table gives medians, the spread (p90 - p10) / median, and the largest error against float64. On a GPU calls are queued back
to back, so that figures are host time; beside them what `torch.empty_like` costs.
"""
import statistics
import sys
import time

import torch

import loopwright

ROUNDS, CALLS = 31, 400


class RMSNorm(torch.nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n), requires_grad=False)
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return (self.weight * h).to(x.dtype)


def contenders(module, x):
    """(name, call) of each that works here."""
    yield "eager", lambda: module(x)
    try:
        compiled = torch.compile(module)
        compiled(x)
        yield "torch.compile", lambda: compiled(x)
    except Exception as error:  # no compiler on this machine, for example
        print(f"# torch.compile does not work here: {type(error).__name__}", file=sys.stderr)
    ours = loopwright.compile(module)
    out = ours(x)
    yield "loopwright.compile", lambda: ours(x)
    yield "loopwright.compile, out=", lambda: ours(x, out=out)
    yield "torch.empty_like alone", lambda: torch.empty_like(x)


def time_round(call, synchronize):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    elapsed = time.perf_counter() - start
    synchronize()
    return elapsed / CALLS * 1e6


def measure(device, n):
    module, x = RMSNorm(n).to(device), torch.randn(1, 1, n, device=device, dtype=torch.bfloat16)
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    wide = x.double()
    reference = module.weight.double() * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.eps))
    calls, samples = dict(contenders(module, x)), {}
    for call in calls.values():
        time_round(call, synchronize)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            samples.setdefault(name, []).append(time_round(call, synchronize))
    eager = statistics.median(samples["eager"])
    for name, times in samples.items():
        deciles = statistics.quantiles(times, n=10)
        median = statistics.median(times)
        error = "" if "empty" in name else f"{((calls[name]().double() - reference).norm() / reference.norm()).item():.1e}"
        print(f"| rmsnorm [1, 1, {n}] bf16 | {name} | {median:.2f} | {(deciles[-1] - deciles[0]) / median:.2f} | {eager / median:.1f} | {error} |")


def main(arguments):
    device = arguments[0] if arguments else "cpu"
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}\n")
    print("| Case | Contender | us | spread | eager / it | error |\n|---|---|---|---|---|---|")
    with torch.no_grad():
        for n in (64, 2880):
            measure(device, n)


if __name__ == "__main__":
    main(sys.argv[1:])
