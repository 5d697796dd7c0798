"""Synchronizing driver calls and overhead of Leadline on a GPU.

Blocks of steps with and without Leadline alternate within one process (ABBA). In the first part every block runs under
torch.profiler, and the driver calls that wait for the device are counted; in the second the blocks are timed, including
the work on the device.
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

SYNCHRONIZING = frozenset(
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
"""Driver calls that wait for the device."""
ALLOCATING = frozenset({"cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaMalloc", "cudaMallocHost"})
"""Driver calls that may wait for the device; shown in the notes."""
WARMUP, STEPS = 10, 50


@dataclass(frozen=True, slots=True)
class Case:
    """A capture plan to measure."""

    name: str
    preset: str | None
    capture: tuple[str, ...] = ()
    limit: float | None = None
    """Limit of the ratio of step times."""


_EVERY_STEP = (
    "losses:every=1",
    *(f"{name}:every=1" for name in ("gradients", "weights", "biases", "gradient_norms")),
)
CASES = (
    Case("preset standard", "standard", limit=1.02),
    Case("preset full", "full"),
    Case("all basic statistics, every step", None, _EVERY_STEP),
    Case(
        "core statistics, every step",
        None,
        tuple(f"{collection}:statistics={','.join(CORE)},every=1" for collection in ("gradients", "weights", "biases")),
        1.10,
    ),
    Case(
        "raw weights and gradients, every step",
        None,
        tuple(f"{collection}:raw=true,every=1" for collection in ("gradients", "weights", "biases")),
        1.20,
    ),
    Case("activations, every step", None, ("layers:every=1",)),
    Case("optimizer variables, every step", None, ("optimizer_variables:every=1",)),
)


def cuda_workload() -> workload.Workload:
    """Return the transformer on the GPU."""
    torch.manual_seed(0)
    model = workload.ByteEncoder().cuda()
    tokens = torch.randint(0, 256, (16, workload.BATCH, workload.LENGTH + 1)).cuda()
    batches = [(batch[:, :-1].contiguous(), batch[:, 1:].contiguous()) for batch in tokens]
    return workload.Workload(model, torch.optim.AdamW(model.parameters(), lr=1e-4), batches)


class Blocks:
    """Blocks of steps with and without Leadline."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._training = cuda_workload()
        self._clip = lambda: torch.nn.utils.clip_grad_norm_(self._training.model.parameters(), 1.0)

    def count(self, case: Case | None) -> dict[str, int]:
        """Return the number of each relevant driver call in the steps of a block, after a warm-up."""

        def traced() -> dict[str, int]:
            self._train(WARMUP)
            torch.cuda.synchronize()
            kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=kinds) as trace:
                self._train(STEPS)
            counts = {event.key: event.count for event in trace.key_averages()}
            return {name: counts.get(name, 0) for name in sorted(SYNCHRONIZING | ALLOCATING)}

        return self._run_block(case, traced)

    def seconds(self, case: Case | None) -> float:
        """Return the time of a block, including closing Leadline and the work on the device."""
        torch.cuda.synchronize()

        def timed() -> None:
            self._train(STEPS)
            torch.cuda.synchronize()

        return harness.elapsed_seconds(lambda: self._run_block(case, timed))

    def _train(self, steps: int) -> None:
        for _ in range(steps):
            self._training.step(self._clip)

    def _run_block(self, case: Case | None, work: Callable[[], T]) -> T:
        if case is None:
            return work()
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            with leadline.torch.Hook(out=str(folder), name="run", preset=case.preset, capture=case.capture):
                return work()
        finally:
            shutil.rmtree(folder)


def trace_row(blocks: Blocks, case: Case, rounds: int) -> Row:
    """Measure the synchronizing calls per step that Leadline adds."""
    waits, notes = [], {}
    for _ in range(rounds):
        bare, recorded = blocks.count(None), blocks.count(case)
        waits.append(sum(recorded[name] - bare[name] for name in SYNCHRONIZING) / STEPS)
        notes = {name: recorded[name] - bare[name] for name in recorded if recorded[name] != bare[name]}
        harness.progress(f"  {case.name}: {waits[-1]:+.2f} waits per step, {notes or 'no additional calls'}")
    note = ", ".join(f"{name} {count:+d}" for name, count in notes.items())
    return Row(f"waits: {case.name}", "per step", harness.spread(waits), Limit(0.0, figure="most"), note=note)


def time_row(blocks: Blocks, case: Case, rounds: int) -> Row:
    """Measure the ratio of block times."""
    times = harness.pairs(lambda: blocks.seconds(None), lambda: blocks.seconds(case), count=rounds)
    bare_ms = 1e3 * harness.spread([bare for bare, _ in times]).median / STEPS
    limit = Limit(case.limit) if case.limit else None
    spread = harness.spread([other / bare for bare, other in times])
    return Row(f"time: {case.name}", "x", spread, limit, note=f"bare {bare_ms:.3g} ms per step")


def main() -> int:
    parser = harness.arguments(__doc__, rounds=20, quick_rounds=3)
    parser.add_argument("--scratch", type=Path, default=harness.RESULTS, help="a folder on the disk to measure")
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
            harness.save("cuda_trace", rows, started=started, options=options)
        for case in CASES:
            rows.append(time_row(blocks, case, rounds))
            harness.save("cuda_trace", rows, started=started, options=options)
    return harness.report("cuda_trace", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
