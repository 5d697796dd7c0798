"""Many small steps in one process: whether what Leadline holds grows with them.

Usage: soak.py [--steps 100000] [--preset standard] [--capture WISH …] [--objects]
The memory is read after each fifth of the steps; after the first, everything that is made once has been made. With
``--objects`` that of Python's objects is read instead, which is free of what the allocator keeps, and slow.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
import tracemalloc
from pathlib import Path

import torch
from torch import nn

import leadline.torch

READINGS = 5


def held_bytes() -> int:
    """Memory of this process that is its own (not shared with files); that of its objects where these are traced."""
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    private = ("Private_Clean:", "Private_Dirty:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(private))


def train(steps: int) -> list[int]:
    """The memory after each fifth of the steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, held = torch.randn(8, 4), []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs[:, :2]).backward()
        optimizer.step()
        if step % (steps // READINGS) == 0:
            time.sleep(0.6)  # what is under way to disk is not held
            gc.collect()
            held.append(held_bytes())
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--capture", action="append", default=[])
    parser.add_argument("--objects", action="store_true")
    wishes = parser.parse_args()
    if wishes.objects:
        tracemalloc.start()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        with leadline.torch.Hook(out=folder, preset=wishes.preset, capture=wishes.capture) as hook:
            begun = time.perf_counter()
            held = train(wishes.steps)
            seconds, own = time.perf_counter() - begun, hook.own_seconds
        files = [path for path in Path(hook.run).rglob("*") if path.is_file()]
        told = {
            "steps": wishes.steps,
            "held_bytes": held,
            "growth_bytes": held[-1] - held[0],
            "step_us": round(seconds / wishes.steps * 1e6, 1),
            "own_us": round(own / wishes.steps * 1e6, 1),
            "files": len(files),
            "run_bytes": sum(path.stat().st_size for path in files),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
