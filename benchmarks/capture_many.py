"""Cost of capturing many small tensors, in the training thread: a step that captures compared with one that does not.

Both kinds of steps alternate in one training (every fourth captures), so that drift affects both. The figures are CPU
time of the training thread. The bound is numpy's ``reduceat`` of six statistics over the same tensors, already
concatenated: what one pass over their elements takes at the least.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import harness
import numpy as np
import torch
from harness import Limit, Row
from torch import nn
from workload import Workload

import leadline
import leadline.torch

_EVERY = 4
_WARMUP = 2 * _EVERY
"""Steps whose programs are built and whose losses are named."""


@dataclass(frozen=True, slots=True)
class Case:
    """A capture to measure."""

    key: str
    name: str
    make: Callable[[], Workload]
    capture: tuple[str, ...]
    limit_ms: float
    first_limit_ms: float
    """For the first step, which includes naming the model and building the programs."""
    tensors: int
    """Number of tensors that a captured step stores."""
    gradients: bool
    """Whether the bound is over parameters and gradients, instead of activations."""


def linears(count: int, width: int) -> Workload:
    """Return the training of a sequence of linear layers with ReLU."""
    torch.manual_seed(0)
    layers = [module for _ in range(count) for module in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers)
    batches = [(torch.randn(32, width), torch.randint(0, width, (32,))) for _ in range(4)]
    return Workload(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)


_PARAMETERS = tuple(f"{collection}:every={_EVERY}" for collection in ("weights", "biases", "gradients"))
CASES = (
    Case("statistics", "statistics of 202 parameters", lambda: linears(101, 32), _PARAMETERS, 3, 15, 405, True),
    Case(
        "layers",
        "outputs of 202 modules",
        lambda: linears(101, 32),
        (f"layers:regex=^[0-9]+_output,every={_EVERY}",),
        5,
        15,
        202,
        False,
    ),
    Case("many", "statistics of 5,000 parameters", lambda: linears(2500, 8), _PARAMETERS, 20, 100, 10_001, True),
)


def measure(case: Case, rounds: int, scratch: Path) -> list[Row]:
    """Measure the rows of one capture: each round is a new training with a new run."""
    steps = _WARMUP + 10 * _EVERY
    captured, first, bounds = [], [], []
    expected = found = 0
    for index in range(rounds):
        folder = Path(tempfile.mkdtemp(dir=scratch))
        gc.collect()
        hook = leadline.torch.Hook(out=str(folder), name="run", preset=None, capture=case.capture)
        training = case.make()
        times = [_thread_ms(training.step) for _ in range(steps)]
        bounds.append(_bound_ms(case, training))
        hook.close()
        others = statistics.median(ms for step, ms in enumerate(times) if step > _WARMUP and step % _EVERY)
        captured.append(statistics.median(times[_WARMUP::_EVERY]) - others)
        first.append(times[0] - others)
        expected += case.tensors
        found += stored_tensors(hook.run)
        shutil.rmtree(folder)
        harness.progress(f"  {case.key} {index + 1}/{rounds}: {captured[-1]:.2f} ms, first {first[-1]:.1f} ms")
    ratios = [ms / bound for ms, bound in zip(captured, bounds, strict=True)]
    note = f"{others:.2f} ms per step without; reduceat {statistics.median(bounds):.2f} ms"

    def row(name: str, unit: str, values: list[float], limit: Limit | None) -> Row:
        return Row(name, unit, harness.spread(values), limit, expected, found, note, tuple(values), {"key": case.key})

    return [
        row(case.name, "ms", captured, Limit(case.limit_ms)),
        row(f"{case.name}, relative to reduceat", "x", ratios, None),
        row(f"{case.name}, first step", "ms", first, Limit(case.first_limit_ms)),
    ]


def _thread_ms(work: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1e6


def _bound_ms(case: Case, training: Workload) -> float:
    if case.gradients:
        parameters = [parameter.detach() for parameter in training.model.parameters()]
        tensors = [*parameters, *(torch.zeros_like(parameter) for parameter in parameters)]
    else:
        tensors = [torch.randn(32, 32) for _ in range(case.tensors)]
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).numpy()
    lengths = np.array([tensor.numel() for tensor in tensors])
    starts = np.cumsum(lengths) - lengths

    def reduce() -> None:
        moduli = np.abs(flat)
        for reducer, values in (
            (np.minimum, flat),
            (np.maximum, flat),
            (np.add, flat),
            (np.add, moduli),
            (np.add, flat * flat),
            (np.maximum, moduli),
        ):
            reducer.reduceat(values, starts)

    return statistics.median(_thread_ms(reduce) for _ in range(9))


def stored_tensors(run: str) -> int:
    """Return the number of tensors with statistics in the run."""
    return len(leadline.open_run(run).tensor_names(regex="weight|bias|gradient_norm|^[0-9]+_output"))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=10, quick_rounds=2)
    options = parser.parse_args()
    rounds, started = harness.rounds_of(options), harness.machine()
    torch.set_num_threads(1)
    rows: list[Row] = []
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch:
        for case in CASES:
            harness.progress(case.name)
            rows += measure(case, rounds, Path(scratch))
    return harness.report("capture_many", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
