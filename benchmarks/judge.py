"""What judging takes: 40 rules on a synthetic training of 500 tensors, afterwards, many stored, and while it grows.

The training is written through ``leadline.testing``'s generator. Live, it is written at a step of 0.1 s and handed to
the kernel every 250 ms, as a training process does; the processor time is that of the judge and of its workers.
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
import stored_runs
from every_rule import OTHER_RUN
from harness import Limit, Row
from judged_training import RULES, TENSORS, Training

from leadline.judge.evaluator import Evaluator
from leadline.judge.judge import judge_run
from leadline.judge.rule_plan import resolve_rules
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.presence import node_name
from leadline.testing.runs import START_NS, RunWriter, SystemSample

SHARE_LIMIT = Limit(10.0)
LATENCY_LIMIT = Limit(1.0, figure="most")
STEP_SECONDS = 0.1
FLUSH_SECONDS = 0.25
HEARTBEAT_SECONDS = 0.5
WINDOW_SECONDS = 5.0
"""50 steps: statistics once, or five times."""
WARMUP_SECONDS = 5.0
PATIENCE_SECONDS = 120.0
BAD_RULE = "exploding_tensor"


class Live:
    """A training that goes on at its pace, and the judge beside it."""

    def __init__(self, folder: Path, every: int, steps: int) -> None:
        self.run = folder / "live"
        self._training = Training(every)
        write(folder / OTHER_RUN, every, steps)
        self._writer = RunWriter(self.run, rules=RULES, batch_rows=1 << 30, started_ns=time.time_ns())
        self._writer.set_status("InProgress", node=node_name())
        self._step, self._most_steps = 0, steps
        self._step_at = self._flush_at = self._beat_at = time.monotonic()
        self._judge = subprocess.Popen(
            [sys.executable, "-m", "leadline.judge", str(self.run), "--follow"], stdin=subprocess.DEVNULL
        )

    def go_on(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let the training go on for so long, or until something is so; whether it is."""
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

    def await_judge(self) -> bool:
        """Let the training go on until every rule was asked, or its rule worker at least tried."""
        return self.go_on(PATIENCE_SECONDS, lambda: int(self.summary().get("judged_step", -1)) >= 0)

    def processor_ns(self) -> int:
        """Processor time of the judge and its workers."""
        return sum(map(harness.processor_ns, (self._judge.pid, *harness.children(self._judge.pid))))

    def bad_value_seconds(self) -> float | None:
        """From a loss that is NaN, flushed at once as the writer does, to IssuesFound in the run; None: not found."""
        path = self.run / layout.rule_status(BAD_RULE)
        self._write_step(loss=math.nan)
        self._writer.flush()
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_SECONDS:
            if (read_document(str(path)) or {}).get("status") == "IssuesFound":
                return time.monotonic() - began
            time.sleep(0.001)
        return None

    def summary(self) -> dict[str, Any]:
        """What the judge wrote last of all rules."""
        return read_document(str(self.run / layout.RULE_SUMMARY)) or {}

    def judging_rules(self) -> int:
        """How many rules judged a step and did not fail."""
        documents = [read_document(str(self.run / layout.rule_status(spec.alias))) or {} for spec in RULES]
        return sum(each.get("status") != "Error" and each.get("judged_steps", 0) > 0 for each in documents)

    def close(self) -> None:
        """End the training, and wait for the judge."""
        self._writer.end()
        self._writer.set_status("Completed", node=node_name(), exit_status=0, ended_ns=time.time_ns())
        try:
            self._judge.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._judge.kill()
            self._judge.wait()

    def _write_step(self, loss: float | None = None) -> None:
        if self._step >= self._most_steps:
            sys.exit(f"judge.py: the training was to take {self._most_steps} steps, and the judge was too slow for it")
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
    """Some judging that was timed."""

    seconds: float
    rules: int
    """Rules that judged a step and did not fail."""


def judge_here(run: Path) -> Judged:
    """Judge a run that has ended, in this process."""
    rules = [(spec.alias, rule) for spec, rule in resolve_rules(RULES)]
    began = time.perf_counter()
    progress = Evaluator(str(run), rules, started_ns=START_NS).advance(is_over=True)
    seconds = time.perf_counter() - began
    found = sum(each["judged_steps"] > 0 and each["error"] is None for each in progress.rules.values())
    return Judged(seconds, found)


def judge_there(run: Path) -> Judged:
    """Judge a run that has ended, as ``leadline judge`` does: in processes that are started for it."""
    began = time.perf_counter()
    results = judge_run(run, RULES)
    seconds = time.perf_counter() - began
    return Judged(seconds, sum(each.judged_steps > 0 and each.status != "Error" for each in results.rules))


def rows_afterwards(rounds: int, *, dense_steps: int, long_steps: int) -> list[Row]:
    """How fast a run is judged that has ended."""
    with tempfile.TemporaryDirectory() as root:
        dense, long = (Path(root, name, "once") for name in ("dense", "long"))
        for path, every, steps in ((dense, 1, dense_steps), (long, 50, long_steps)):
            harness.progress(f"  writing {steps} steps, statistics every {every}")
            for each in (path, path.with_name(OTHER_RUN)):
                write(each, every, steps)
        heres = [judge_here(dense) for _ in _counted("afterwards, every tensor at every step", rounds)]
        theres = [judge_there(long) for _ in _counted("afterwards, standard", rounds)]
    asked = len(RULES) * len(TENSORS) * dense_steps
    return [
        _row(
            "afterwards: rules x tensors x steps a second",
            "1/s",
            [asked / each.seconds for each in heres],
            [each.rules for each in heres],
            note=f"{dense_steps} steps, each with all {len(TENSORS)} tensors",
        ),
        _row(
            f"afterwards: {long_steps:,} steps of standard, with starting the processes",
            "s",
            [each.seconds for each in theres],
            [each.rules for each in theres],
        ),
    ]


def rows_live(every: int, windows: int) -> list[Row]:
    """The share of a core that judging takes while the training goes on, and what starting took."""
    harness.progress(f"live, statistics every {every}: {WARMUP_SECONDS + windows * WINDOW_SECONDS:.0f} s")
    name = f"live, statistics every {every}: share of one core"
    most = int((WARMUP_SECONDS + windows * WINDOW_SECONDS + PATIENCE_SECONDS) / STEP_SECONDS)
    with tempfile.TemporaryDirectory() as root:
        live = Live(Path(root), every, most)
        try:
            if not live.await_judge():
                return [Row(name, "%", None, SHARE_LIMIT, note="the judge did not come up")]
            start_seconds = live.processor_ns() / 1e9
            live.go_on(WARMUP_SECONDS)
            shares = [_share(live) for _ in _counted(f"live, every {every}", windows)]
        finally:
            live.close()
        found = live.judging_rules()
    return [
        _row(name, "%", shares, [found], limit=SHARE_LIMIT, note=f"starting took {start_seconds:.1f} s of processor")
    ]


def _share(live: Live) -> float:
    """Percent of a core over one window."""
    before, began = live.processor_ns(), time.monotonic_ns()
    live.go_on(WINDOW_SECONDS)
    return 100 * (live.processor_ns() - before) / (time.monotonic_ns() - began)


def row_latency(rounds: int) -> Row:
    """From a bad value in the run to IssuesFound in the run, all rules on; each round is a run of its own."""
    seconds = []
    for index in _counted("bad value to IssuesFound", rounds):
        with tempfile.TemporaryDirectory() as root:
            live = Live(Path(root), 50, int(PATIENCE_SECONDS / STEP_SECONDS) + 100)
            try:
                # not always at the same phase of anybody's polling
                is_up = live.await_judge() and not live.go_on(1.0 + 0.037 * (index % 11))
                seconds.append(live.bad_value_seconds() if is_up else None)
            finally:
                live.close()
    found = [each for each in seconds if each is not None]
    name = "live: a NaN in the run to IssuesFound"
    if not found:
        return Row(name, "s", None, LATENCY_LIMIT, note=f"{BAD_RULE} did not find it")
    return Row(
        name,
        "s",
        harness.spread(found),
        LATENCY_LIMIT,
        asked=rounds,
        found=len(found),
        note=f"max {max(found):.3f} s",
        values=tuple(found),
    )


def _row(
    name: str, unit: str, values: list[float], found: list[int], *, limit: Limit | None = None, note: str = ""
) -> Row:
    """A row that counts when every rule judged."""
    spoken = "found/asked: rules that judged"
    return Row(
        name,
        unit,
        harness.spread(values),
        limit,
        asked=len(RULES),
        found=min(found),
        note=f"{note}; {spoken}" if note else spoken,
        values=tuple(values),
    )


def _counted(what: str, rounds: int) -> Any:
    for index in range(rounds):
        harness.progress(f"  {what}: {index + 1}/{rounds}")
        yield index


def main() -> int:
    parser = harness.arguments(__doc__, rounds=12, quick_rounds=2)
    parser.add_argument("--rows", default="afterwards,stored,live,latency", help="some of these")
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
    if "latency" in options.rows:
        rows.append(row_latency(rounds))
    return harness.report("judge", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
