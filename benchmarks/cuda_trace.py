"""On a GPU: whether watching makes a training wait for its device, by the profiler's own trace; and what it costs.

Blocks of steps with and without Leadline take turns within one process (ABBA). In the first part every block runs under
torch.profiler, and the driver's calls that wait for the device are counted; in the second the blocks are timed, the
device's own work included.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import harness
import torch
import workload
from contenders import CORE
from harness import Limit, Row

import leadline.torch

T = TypeVar("T")

WAITING = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaStreamSynchronize",
        "cudaStreamWaitValue",
        "hipDeviceSynchronize",
        "hipEventSynchronize",
        "hipStreamSynchronize",
    }
)
"""Calls of the driver that return when the device has come so far."""
RESERVING = frozenset({"cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaMalloc", "cudaMallocHost"})
"""Calls that may wait for it; they are told in the notes."""
WARMUP, STEPS = 10, 50


@dataclass(frozen=True, slots=True)
class Case:
    """What is captured."""

    name: str
    preset: str | None
    capture: tuple[str, ...] = ()
    limit: float | None = None
    """Of the step's time."""


_EVERY_STEP = ("losses:every=1", *(f"{each}:every=1" for each in ("gradients", "weights", "biases", "gradient_norms")))
CASES = (
    Case("preset standard", "standard", limit=1.02),
    Case("preset full", "full"),
    Case("all basic statistics, every step", None, _EVERY_STEP),
    Case(
        "core statistics, every step",
        None,
        tuple(f"{each}:statistics={','.join(CORE)},every=1" for each in ("gradients", "weights", "biases")),
        1.10,
    ),
    Case(
        "raw weights and gradients, every step",
        None,
        tuple(f"{each}:raw=true,every=1" for each in ("gradients", "weights", "biases")),
        1.20,
    ),
    Case("activations, every step", None, ("layers:every=1",)),
    Case("optimizer variables, every step", None, ("optimizer_variables:every=1",)),
)


def on_device() -> workload.Workload:
    """The workload of the limits, on the GPU."""
    torch.manual_seed(0)
    model = workload.ByteEncoder().cuda()
    tokens = torch.randint(0, 256, (16, workload.BATCH, workload.LENGTH + 1)).cuda()
    batches = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in tokens]
    return workload.Workload(model, torch.optim.AdamW(model.parameters(), lr=1e-4), batches)


class Blocks:
    """Blocks of steps, with and without Leadline."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._watched = on_device()
        self._clip = lambda: torch.nn.utils.clip_grad_norm_(self._watched.model.parameters(), 1.0)

    def count(self, case: Case | None) -> dict[str, int]:
        """How often each call of interest was made in a block's steps, warmed up."""

        def traced() -> dict[str, int]:
            self._train(WARMUP)
            torch.cuda.synchronize()
            kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=kinds) as trace:
                self._train(STEPS)
            found = {each.key: each.count for each in trace.key_averages()}
            return {name: found.get(name, 0) for name in sorted(WAITING | RESERVING)}

        return self._within(case, traced)

    def seconds(self, case: Case | None) -> float:
        """What a block takes, its closing and the device's work included."""
        torch.cuda.synchronize()

        def timed() -> None:
            self._train(STEPS)
            torch.cuda.synchronize()

        return harness.elapsed_seconds(lambda: self._within(case, timed))

    def _train(self, steps: int) -> None:
        for _ in range(steps):
            self._watched.step(self._clip)

    def _within(self, case: Case | None, work: Callable[[], T]) -> T:
        if case is None:
            return work()
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            with leadline.torch.Hook(out=str(folder), name="run", preset=case.preset, capture=case.capture):
                return work()
        finally:
            shutil.rmtree(folder)


def trace_row(blocks: Blocks, case: Case, rounds: int) -> Row:
    """How many waits a step Leadline adds."""
    waits, notes = [], {}
    for _ in range(rounds):
        bare, watched = blocks.count(None), blocks.count(case)
        waits.append(sum(watched[name] - bare[name] for name in WAITING) / STEPS)
        notes = {name: watched[name] - bare[name] for name in watched if watched[name] != bare[name]}
        harness.progress(f"  {case.name}: {waits[-1]:+.2f} waits a step, {notes or 'no calls that bare has not'}")
    note = ", ".join(f"{name} {count:+d}" for name, count in notes.items())
    return Row(f"waits: {case.name}", "a step", harness.spread(waits), Limit(0.0, figure="most"), note=note)


def time_row(blocks: Blocks, case: Case, rounds: int) -> Row:
    """The ratio of a block's time."""
    times = harness.pairs(lambda: blocks.seconds(None), lambda: blocks.seconds(case), count=rounds)
    bare_ms = 1e3 * harness.spread([bare for bare, _ in times]).median / STEPS
    limit = Limit(case.limit) if case.limit else None
    spread = harness.spread([other / bare for bare, other in times])
    return Row(f"time: {case.name}", "x", spread, limit, note=f"bare {bare_ms:.3g} ms a step")


def main() -> int:
    parser = harness.arguments(__doc__, rounds=20, quick_rounds=3)
    parser.add_argument("--scratch", type=Path, default=harness.RESULTS, help="folder on the disk to measure")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        harness.progress("cuda_trace.py: this machine has no CUDA device; nothing was measured")
        return 1
    started = {**harness.machine(), "gpu": torch.cuda.get_device_name()}
    options.scratch.mkdir(parents=True, exist_ok=True)
    rounds = harness.rounds_of(options)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=options.scratch) as scratch:
        blocks = Blocks(Path(scratch))
        for case in CASES:
            rows.append(trace_row(blocks, case, max(rounds // 4, 1)))
        for case in CASES:
            rows.append(time_row(blocks, case, rounds))
            harness.save("cuda_trace", rows, started=started, options=options)
    return harness.report("cuda_trace", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
