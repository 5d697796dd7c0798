"""What it costs to time the phases of every step: the timeline on and off, both watched, in turn within one process.

A step with nothing to capture is trained in blocks, once as it is and once with the timeline's marks replaced by ones
that do nothing. Rows in us are what a step takes longer, rows in x how many times as long it takes; "marks alone" is
the time of the marks by themselves, which no other process on the machine can hide.
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
from leadline.training.guard import Guard
from leadline.training.recorder.overhead import Overhead
from leadline.training.timeline.step_timeline import StepTimeline

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
    """A training, timed and not timed."""

    key: str
    name: str
    make: Callable[[], workload.Workload]
    steps: int
    factor: int
    is_in_us: bool
    limit: float


class Loaded(workload.Workload):
    """A workload whose batches come through a loader."""

    def __init__(self, of: workload.Workload) -> None:
        super().__init__(of.model, of.optimizer, of._batches)
        inputs, targets = (torch.cat([batch[at] for batch in of._batches]) for at in (0, 1))
        self._loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(of._batches[0][0]))
        self._iterator = iter(self._loader)

    def step(self, before_update: Callable[[], None] | None = None) -> None:
        """One step."""
        batch = next(self._iterator, None)
        if batch is None:
            self._iterator = iter(self._loader)
            batch = next(self._iterator)
        self._batches = [tuple(batch)]  # type: ignore[list-item]
        super().step(before_update)


CASES = (
    Case("small", "a tiny model, data at hand", workload.small, 1000, 5, True, 10.0),
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
    """A row: blocks with and without in turn."""
    trained = case.make()
    trained.step()
    steps = [0, 0]

    def block(*, is_timed: bool) -> float:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        with _marks(are_on=is_timed):
            hook = leadline.torch.Hook(out=str(folder), name="run", capture=("weights:steps=1000000000",))
            for _ in range(_WARMUP):
                trained.step()
            gc.collect()
            seconds = harness.elapsed_seconds(lambda: [trained.step() for _ in range(case.steps)])
            hook.close()
        if is_timed:
            steps[0] += case.steps + _WARMUP
            steps[1] += written(hook.run)
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
        asked=steps[0],
        found=steps[1],
        note=f"{off_ms:.3g} ms a step without",
        values=tuple(values),
        details={"key": case.key, "seconds": times, "steps": case.steps},
    )


def written(run: str) -> int:
    """For how many train steps the timeline's rows stand."""
    table = leadline.open_run(run).timeline()
    rows = zip(table["name"].to_pylist(), table["phase"].to_pylist(), table["args"].to_pylist(), strict=True)
    return sum(json.loads(args).get("every", 1) for name, phase, args in rows if (name, phase) == ("step", "train"))


@contextmanager
def _marks(*, are_on: bool) -> Iterator[None]:
    """The marks of every timeline that is made, or ones that do nothing in their place."""
    kept = {name: getattr(StepTimeline, name) for name in _MARKS}
    for name in () if are_on else _MARKS:
        setattr(StepTimeline, name, lambda self, *args: 0)
    try:
        yield
    finally:
        for name, each in kept.items():
            setattr(StepTimeline, name, each)


def marks_alone(rounds: int) -> Row:
    """What the marks of one step take, with data from a loader; processor time of the thread."""
    timeline, guard = StepTimeline(Overhead()), Guard(print)
    timeline.open(_Nowhere())
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
    return Row("marks alone", "us", harness.spread(values), Limit(10.0), note="processor time", values=tuple(values))


class _Nowhere:
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
        for case in _chosen(options):
            harness.progress(case.name)
            rows.append(measure(case, rounds if options.quick else rounds * case.factor, Path(scratch)))
    return harness.report("timeline", rows, started=started, options=options)


def _chosen(options: argparse.Namespace) -> list[Case]:
    return [each for each in CASES if options.rows is None or any(key in each.key for key in options.rows.split(","))]


if __name__ == "__main__":
    sys.exit(main())
