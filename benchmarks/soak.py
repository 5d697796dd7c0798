"""Memory growth over many small steps in one process.

Usage: soak.py [--steps 100000] [--preset standard] [--capture ITEM …] [--objects]
Memory is measured after each fifth of the steps. The growth is the median of the differences, times their number: what
is allocated once does not count. With ``--objects`` the memory of Python objects is traced instead, which excludes
memory kept by the allocator, and is slow.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
import tracemalloc
from operator import sub
from pathlib import Path

import torch
from torch import nn

import leadline.torch

READINGS = 5


def held_bytes() -> int:
    """Return the private memory of this process, or the memory of its Python objects if these are traced."""
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    private = ("Private_Clean:", "Private_Dirty:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(private))


def train(steps: int, hook: leadline.torch.Hook) -> list[int]:
    """Train; return the memory after each fifth of the steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, held = torch.randn(8, 4), []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs[:, :2]).backward()
        optimizer.step()
        if step % (steps // READINGS) == 0:
            if hook.session is not None:
                hook.session.flush()  # what is queued is no leak
            gc.collect()
            held.append(held_bytes())
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--capture", action="append", default=[])
    parser.add_argument("--objects", action="store_true")
    options = parser.parse_args()
    if options.objects:
        tracemalloc.start()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        with leadline.torch.Hook(out=folder, preset=options.preset, capture=options.capture) as hook:
            begun = time.perf_counter()
            held = train(options.steps, hook)
            seconds, overhead = time.perf_counter() - begun, hook.own_seconds
        files = [path for path in Path(hook.run).rglob("*") if path.is_file()]
        result = {
            "steps": options.steps,
            "held_bytes": held,
            "growth_bytes": round(statistics.median(map(sub, held[1:], held[:-1])) * (READINGS - 1)),
            "step_us": round(seconds / options.steps * 1e6, 1),
            "own_us": round(overhead / options.steps * 1e6, 1),
            "files": len(files),
            "run_bytes": sum(path.stat().st_size for path in files),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
