"""Cost of the judge: 40 rules on a synthetic training of 500 tensors, afterwards, on many stored runs, and live; and
the default rules on 64 workers.

The training is written with the generator of ``leadline.testing``. In the live rows a step is written every 0.1 s and
flushed every 250 ms, as by a training process; CPU time includes the judge and its workers.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import judged_workers
import stored_runs
from every_rule import OTHER_RUN
from harness import Limit, Row
from judged_training import RULES, TENSORS, Training

from leadline.judge.evaluator import Evaluator
from leadline.judge.judge import judge_run
from leadline.judge.rule_plan import resolve_rules
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.node_lock import node_name
from leadline.testing.runs import START_NS, RunWriter, SystemSample

SHARE_LIMIT = Limit(10.0)
WORKERS_LIMIT = Limit(10.0)
"""Milliseconds of processor time for a step of 64 workers: the judge keeps up with steps of 10 ms on a free core."""
LATENCY_LIMIT = Limit(1.0, figure="most")
STEP_SECONDS = 0.1
FLUSH_SECONDS = 0.25
HEARTBEAT_SECONDS = 0.5
WINDOW_SECONDS = 5.0
"""50 steps: statistics are captured once or five times."""
WARMUP_SECONDS = 5.0
TIMEOUT_SECONDS = 120.0
BAD_RULE = "exploding_tensor"


class Live:
    """A synthetic training in real time, and its judge."""

    def __init__(self, folder: Path, every: int, steps: int) -> None:
        self.run = folder / "live"
        self._training = Training(every)
        write(folder / OTHER_RUN, every, steps)
        self._writer = RunWriter(self.run, rules=RULES, batch_rows=1 << 30, started_ns=time.time_ns())
        self._writer.set_status("InProgress", node=node_name())
        self._step, self._max_steps = 0, steps
        self._step_at = self._flush_at = self._beat_at = time.monotonic()
        self._judge = subprocess.Popen(
            [sys.executable, "-m", "leadline.judge", str(self.run), "--follow"], stdin=subprocess.DEVNULL
        )

    def run_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Continue the training for some seconds, or until a condition holds; return whether it holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = time.monotonic()
            if now >= self._step_at:
                self._write_step()
                self._step_at += STEP_SECONDS
            if now >= self._beat_at:
                self._writer.write(SystemSample(time.time_ns(), node=node_name()))
                self._beat_at += HEARTBEAT_SECONDS
            if now >= self._flush_at:
                self._writer.flush()
                self._flush_at = now + FLUSH_SECONDS
            if until():
                return True
            time.sleep(max(0.0, min(self._step_at, self._beat_at, self._flush_at, end) - time.monotonic()))
        return until()

    def wait_for_judge(self) -> bool:
        """Continue the training until the judge has evaluated a step."""
        return self.run_for(TIMEOUT_SECONDS, lambda: int(self.summary().get("judged_step", -1)) >= 0)

    def processor_ns(self) -> int:
        """Return the CPU time of the judge and its workers in ns."""
        return sum(map(harness.processor_ns, (self._judge.pid, *harness.children(self._judge.pid))))

    def bad_value_seconds(self) -> float | None:
        """Return the time from a NaN loss, flushed at once, to IssuesFound; None if it was not found."""
        path = self.run / layout.rule_status(BAD_RULE)
        self._write_step(loss=math.nan)
        self._writer.flush()
        began = time.monotonic()
        while time.monotonic() < began + TIMEOUT_SECONDS:
            if (read_document(str(path)) or {}).get("status") == "IssuesFound":
                return time.monotonic() - began
            time.sleep(0.001)
        return None

    def summary(self) -> dict[str, Any]:
        """Return the latest rule summary."""
        return read_document(str(self.run / layout.RULE_SUMMARY)) or {}

    def judging_rules(self) -> int:
        """Return the number of rules that judged a step and did not fail."""
        documents = [read_document(str(self.run / layout.rule_status(spec.alias))) or {} for spec in RULES]
        return sum(document.get("status") != "Error" and document.get("judged_steps", 0) > 0 for document in documents)

    def close(self) -> None:
        """End the training and wait for the judge."""
        self._writer.end()
        self._writer.set_status("Completed", node=node_name(), exit_status=0, ended_ns=time.time_ns())
        try:
            self._judge.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._judge.kill()
            self._judge.wait()

    def _write_step(self, loss: float | None = None) -> None:
        if self._step >= self._max_steps:
            sys.exit(f"judge.py: the judge was too slow: the training has reached its {self._max_steps} steps")
        for part in self._training.parts(self._step, time.time_ns(), loss=loss):
            self._writer.write(part)
        self._step += 1


def write(path: Path, every: int, steps: int, *, rows: int = 8) -> Path:
    """Write a training that has ended."""
    writer = RunWriter(path, rules=RULES, batch_rows=rows, started_ns=START_NS)
    for part in Training(every).all_parts(steps):
        writer.write(part)
    writer.end()
    return path


@dataclass(frozen=True, slots=True)
class Judged:
    """The time of an evaluation of all rules."""

    seconds: float
    rules: int
    """Rules that judged a step and did not fail."""


def judge_in_process(run: Path) -> Judged:
    """Judge a run that has ended, in this process."""
    rules = [(spec.alias, rule) for spec, rule in resolve_rules(RULES)]
    began = time.perf_counter()
    progress = Evaluator(str(run), rules, started_ns=START_NS).advance(is_over=True)
    seconds = time.perf_counter() - began
    states = progress.rules.values()
    return Judged(seconds, sum(state["judged_steps"] > 0 and state["error"] is None for state in states))


def judge_in_new_processes(run: Path) -> Judged:
    """Judge a run that has ended, as ``leadline judge`` does: in processes that are started for it."""
    began = time.perf_counter()
    results = judge_run(run, RULES)
    seconds = time.perf_counter() - began
    return Judged(seconds, sum(rule.judged_steps > 0 and rule.status != "Error" for rule in results.rules))


def rows_afterwards(rounds: int, *, dense_steps: int, long_steps: int) -> list[Row]:
    """Measure the speed on a run that has ended."""
    with tempfile.TemporaryDirectory() as root:
        dense, long = (Path(root, name, "once") for name in ("dense", "long"))
        for path, every, steps in ((dense, 1, dense_steps), (long, 50, long_steps)):
            harness.progress(f"  writing {steps} steps, statistics every {every}")
            for run in (path, path.with_name(OTHER_RUN)):
                write(run, every, steps)
        in_process = [judge_in_process(dense) for _ in _counted("afterwards, every tensor at every step", rounds)]
        in_new_processes = [judge_in_new_processes(long) for _ in _counted("afterwards, standard", rounds)]
    evaluations = len(RULES) * len(TENSORS) * dense_steps
    return [
        _row(
            "afterwards: rules x tensors x steps per second",
            "1/s",
            [evaluations / judged.seconds for judged in in_process],
            [judged.rules for judged in in_process],
            note=f"{dense_steps} steps, all {len(TENSORS)} tensors at every step",
        ),
        _row(
            f"afterwards: {long_steps:,} steps of standard, including process start",
            "s",
            [judged.seconds for judged in in_new_processes],
            [judged.rules for judged in in_new_processes],
        ),
    ]


def rows_live(every: int, windows: int) -> list[Row]:
    """Measure the share of a core that the judge takes during the training, and the CPU time of its start."""
    harness.progress(f"live, statistics every {every}: {WARMUP_SECONDS + windows * WINDOW_SECONDS:.0f} s")
    name = f"live, statistics every {every}: share of one core"
    max_steps = int((WARMUP_SECONDS + windows * WINDOW_SECONDS + TIMEOUT_SECONDS) / STEP_SECONDS)
    with tempfile.TemporaryDirectory() as root:
        live = Live(Path(root), every, max_steps)
        try:
            if not live.wait_for_judge():
                return [Row(name, "%", None, SHARE_LIMIT, note="the judge did not start")]
            start_seconds = live.processor_ns() / 1e9
            live.run_for(WARMUP_SECONDS)
            shares = [_share(live) for _ in _counted(f"live, every {every}", windows)]
        finally:
            live.close()
        judging_rules = live.judging_rules()
    return [
        _row(name, "%", shares, [judging_rules], limit=SHARE_LIMIT, note=f"start: {start_seconds:.1f} s of CPU time")
    ]


def _share(live: Live) -> float:
    """Return the percentage of a core over one window."""
    before, began = live.processor_ns(), time.monotonic_ns()
    live.run_for(WINDOW_SECONDS)
    return 100 * (live.processor_ns() - before) / (time.monotonic_ns() - began)


def row_latency(rounds: int) -> Row:
    """Measure the time from a bad value in the run to IssuesFound with all rules; every round is a new run."""
    seconds = []
    for index in _counted("bad value to IssuesFound", rounds):
        with tempfile.TemporaryDirectory() as root:
            live = Live(Path(root), 50, int(TIMEOUT_SECONDS / STEP_SECONDS) + 100)
            try:
                # at different phases of all polling intervals
                is_up = live.wait_for_judge() and not live.run_for(1.0 + 0.037 * (index % 11))
                seconds.append(live.bad_value_seconds() if is_up else None)
            finally:
                live.close()
    measured = [value for value in seconds if value is not None]
    name = "live: a NaN in the run to IssuesFound"
    if not measured:
        return Row(name, "s", None, LATENCY_LIMIT, note=f"{BAD_RULE} did not fire")
    return Row(
        name,
        "s",
        harness.spread(measured),
        LATENCY_LIMIT,
        asked=rounds,
        found=len(measured),
        note=f"max {max(measured):.3f} s",
        values=tuple(measured),
    )


def rows_of_workers(rounds: int, steps: int) -> list[Row]:
    """Measure the processor time for a step of 64 workers: afterwards, and while all of them write."""
    workers = judged_workers.WORKERS
    with tempfile.TemporaryDirectory() as root:
        harness.progress(f"  writing {steps} steps of {workers} workers")
        run = judged_workers.write(Path(root, "stored"), steps)
        afterwards = [judged_workers.judge_stored(run, steps) for _ in _counted(f"{workers} workers, stored", rounds)]
        live = [
            judged_workers.judge_live(Path(root, f"live-{index}"), steps)
            for index in _counted(f"{workers} workers, live", rounds)
        ]
    note = f"{workers} workers, {steps:,} steps, default rules; found/expected: steps that were judged"
    return [
        Row(
            f"{name}: processor time for a step of {workers} workers",
            "ms",
            harness.spread([each.milliseconds for each in measured]),
            WORKERS_LIMIT,
            asked=steps,
            found=min(each.steps for each in measured),
            note=note,
            values=tuple(each.milliseconds for each in measured),
        )
        for name, measured in (("afterwards", afterwards), ("live", live))
    ]


def _row(
    name: str, unit: str, values: list[float], judging: list[int], *, limit: Limit | None = None, note: str = ""
) -> Row:
    """Return a row that counts only if every rule judged."""
    legend = "found/expected: rules that judged"
    return Row(
        name,
        unit,
        harness.spread(values),
        limit,
        asked=len(RULES),
        found=min(judging),
        note=f"{note}; {legend}" if note else legend,
        values=tuple(values),
    )


def _counted(label: str, rounds: int) -> Any:
    for index in range(rounds):
        harness.progress(f"  {label}: {index + 1}/{rounds}")
        yield index


def main() -> int:
    parser = harness.arguments(__doc__, rounds=12, quick_rounds=2)
    parser.add_argument(
        "--rows", default="afterwards,stored,live,workers,latency", help="comma-separated (default %(default)s)"
    )
    options: argparse.Namespace = parser.parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    rows: list[Row] = []
    if "afterwards" in options.rows:
        dense, long = (20, 1_000) if options.quick else (100, 10_000)
        rows += rows_afterwards(max(2, rounds // 3), dense_steps=dense, long_steps=long)
    if "stored" in options.rows:
        rows += stored_runs.rows(20 if options.quick else 200, 1 if options.quick else max(2, rounds // 4))
    if "live" in options.rows:
        rows += [row for every in (50, 10) for row in rows_live(every, rounds)]
    if "workers" in options.rows:
        rows += rows_of_workers(1 if options.quick else max(2, rounds // 4), 300 if options.quick else 1_000)
    if "latency" in options.rows:
        rows.append(row_latency(rounds))
    return harness.report("judge", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
