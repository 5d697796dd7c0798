"""Overhead of the timeline: recorded trainings with and without it, alternately within one process.

Steps with nothing to capture are trained in blocks, with the timeline's marks and with no-ops in their place. Rows
in us are the additional time per step, rows in x the ratio of step times; "marks alone" is the CPU time of the marks,
which does not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import harness
import torch
import workload
from harness import Limit, Row
from torch.utils.data import DataLoader, TensorDataset

import leadline
import leadline.torch
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.training.recorder.overhead import Overhead

_MARKS = (
    "begin_data",
    "end_data",
    "end_forward",
    "begin_backward",
    "end_backward",
    "begin_update",
    "end_update",
    "end_step",
)
_WARMUP = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A training to measure with and without the timeline."""

    key: str
    name: str
    make: Callable[[], workload.Workload]
    steps: int
    factor: int
    is_in_us: bool
    limit: float


class Loaded(workload.Workload):
    """A workload that reads its batches from a data loader."""

    def __init__(self, base: workload.Workload) -> None:
        super().__init__(base.model, base.optimizer, base._batches)
        inputs, targets = (torch.cat([batch[index] for batch in base._batches]) for index in (0, 1))
        self._loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(base._batches[0][0]))
        self._iterator = iter(self._loader)

    def step(self, before_update: Callable[[], None] | None = None) -> None:
        """Train one step."""
        batch = next(self._iterator, None)
        if batch is None:
            self._iterator = iter(self._loader)
            batch = next(self._iterator)
        self._batches = [tuple(batch)]  # type: ignore[list-item]
        super().step(before_update)


CASES = (
    Case("small", "a tiny model, data in memory", workload.small, 1000, 5, True, 10.0),
    Case("loaded", "a tiny model, batches from a loader", lambda: Loaded(workload.small()), 500, 5, True, 10.0),
    Case(
        "transformer",
        "the transformer, batches from a loader",
        lambda: Loaded(workload.transformer()),
        20,
        5,
        False,
        1.005,
    ),
)


def measure(case: Case, rounds: int, scratch: Path) -> Row:
    """Measure one row: alternating blocks with and without the timeline."""
    training = case.make()
    training.step()
    expected = found = 0

    def block(*, is_timed: bool) -> float:
        nonlocal expected, found
        folder = Path(tempfile.mkdtemp(dir=scratch))
        with _marks(is_enabled=is_timed):
            hook = leadline.torch.Hook(out=str(folder), name="run", capture=("weights:steps=1000000000",))
            for _ in range(_WARMUP):
                training.step()
            gc.collect()
            seconds = harness.elapsed_seconds(lambda: [training.step() for _ in range(case.steps)])
            hook.close()
        if is_timed:
            expected += case.steps + _WARMUP
            found += recorded_steps(hook.run)
        shutil.rmtree(folder)
        return seconds

    times = harness.pairs(
        lambda: block(is_timed=False),
        lambda: block(is_timed=True),
        count=rounds,
        on_pair=lambda index, off, on: harness.progress(f"  {case.key} {index + 1}/{rounds}: x{on / off:.3f}"),
    )
    values = [1e6 * (on - off) / case.steps if case.is_in_us else on / off for off, on in times]
    off_ms = 1e3 * harness.spread([off for off, _ in times]).median / case.steps
    return Row(
        name=case.name,
        unit="us" if case.is_in_us else "x",
        spread=harness.spread(values),
        limit=Limit(case.limit),
        asked=expected,
        found=found,
        note=f"{off_ms:.3g} ms per step without",
        values=tuple(values),
        details={"key": case.key, "seconds": times, "steps": case.steps},
    )


def recorded_steps(run: str) -> int:
    """Return the number of train steps in the timeline."""
    table = leadline.open_run(run).timeline()
    rows = zip(table["name"].to_pylist(), table["phase"].to_pylist(), table["args"].to_pylist(), strict=True)
    return sum(json.loads(args).get("every", 1) for name, phase, args in rows if (name, phase) == ("step", "train"))


@contextmanager
def _marks(*, is_enabled: bool) -> Iterator[None]:
    """Keep the marks of all timelines, or replace them by no-ops."""
    originals = {name: getattr(StepTimeline, name) for name in _MARKS}
    for name in () if is_enabled else _MARKS:
        setattr(StepTimeline, name, lambda self, *args: 0)
    try:
        yield
    finally:
        for name, method in originals.items():
            setattr(StepTimeline, name, method)


def marks_alone(rounds: int) -> Row:
    """Measure the CPU time of the marks of one step with data from a loader."""
    timeline, guard = StepTimeline(Overhead()), Guard(print)
    timeline.open(_NullSink())
    steps = 1000

    def block() -> float:
        began = time.thread_time_ns()
        for step in range(steps):
            if not timeline.is_elsewhere():
                guard.run(timeline.begin_data)
                guard.run(timeline.end_data)
            timeline.end_forward()
            timeline.begin_backward()
            guard.run(timeline.end_backward)
            timeline.begin_update()
            timeline.end_update()
            timeline.end_step(step)
        return (time.thread_time_ns() - began) / steps / 1e3

    values = [block() for _ in range(20 * rounds)]
    return Row("marks alone", "us", harness.spread(values), Limit(10.0), note="CPU time", values=tuple(values))


class _NullSink:
    def put_phases(self, row: bytes) -> None: ...

    def put_event(self, event: object) -> None: ...


def main() -> int:
    parser = harness.arguments(__doc__, rounds=20, quick_rounds=2)
    parser.add_argument("--rows", help="only rows whose key contains one of these, separated by commas")
    options = parser.parse_args()
    rounds, started = harness.rounds_of(options), harness.machine()
    rows = [marks_alone(rounds)]
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch:
        for case in _select_cases(options):
            harness.progress(case.name)
            rows.append(measure(case, rounds if options.quick else rounds * case.factor, Path(scratch)))
    return harness.report("timeline", rows, started=started, options=options)


def _select_cases(options: argparse.Namespace) -> list[Case]:
    return [case for case in CASES if options.rows is None or any(key in case.key for key in options.rows.split(","))]


if __name__ == "__main__":
    sys.exit(main())
