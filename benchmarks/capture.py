"""Overhead of storing tensors and statistics: Leadline and its peers against the bare training.

Blocks of steps with and without the contender alternate within one process (ABBA). A block's time includes closing the
contender, so all work is counted. A row counts only if everything expected is on disk: the files of every block are
opened and counted, then deleted. Only ratios are meaningful; absolute times on shared machines are not.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
import workload
from contenders import (
    CORE,
    Bare,
    Contender,
    NaiveStatistics,
    NotAvailableError,
    SafetensorsInTheLoop,
    Smdebug,
    Stored,
    TensorBoardHistograms,
    leadline_activations,
    leadline_evaluation,
    leadline_idle,
    leadline_preset,
    leadline_raw,
    leadline_rules,
    leadline_rules_first,
    leadline_statistics,
)
from harness import Limit, Row

SMDEBUG = harness.PROJECT / ".venvs/smdebug/bin/python"


@dataclass(frozen=True, slots=True)
class Case:
    """One row to measure."""

    key: str
    """The row's name for ``--rows``."""
    name: str
    make: Callable[[], Contender]
    limit: float | None = None
    steps: int = 20
    """Steps per block."""
    factor: int = 1
    """Multiplies the requested rounds; a limit of 1.02 needs 100 pairs."""
    environment: str = "torch"
    is_idle: bool = False
    """Whether the figure is microseconds per step instead of a ratio."""
    workload: Callable[[], workload.Workload] = workload.transformer


WIDER_STATISTICS = (*CORE, "std", "variance")
WIDEST_STATISTICS = (*WIDER_STATISTICS, "zero_ratio", "nan_count", "nonfinite_count")

CASES = (
    Case("bare", "bare against itself", Bare),
    Case("raw-leadline", "raw, every step: leadline", lambda: leadline_raw(1), 1.20),
    Case("raw-safetensors", "raw, every step: safetensors.save_file", lambda: SafetensorsInTheLoop(1)),
    Case("raw-tensorboard", "raw, every step: TensorBoard histograms", lambda: TensorBoardHistograms(1)),
    Case("raw-smdebug", "raw, every step: smdebug 1.0.34", lambda: Smdebug(1), environment="smdebug"),
    Case("raw10-leadline", "raw, every 10: leadline", lambda: leadline_raw(10), 1.02, factor=5),
    Case("raw10-safetensors", "raw, every 10: safetensors.save_file", lambda: SafetensorsInTheLoop(10)),
    Case("raw10-tensorboard", "raw, every 10: TensorBoard histograms", lambda: TensorBoardHistograms(10)),
    Case("raw10-smdebug", "raw, every 10: smdebug 1.0.34", lambda: Smdebug(10), environment="smdebug"),
    Case("core-leadline", "core statistics: leadline", lambda: leadline_statistics(CORE), 1.10),
    Case("core-naive", "core statistics: one torch call per statistic", NaiveStatistics),
    Case(
        "wider-leadline",
        "core + std, variance, update_ratio: leadline",
        lambda: leadline_statistics(WIDER_STATISTICS, ["update_ratio"]),
        1.20,
    ),
    Case(
        "widest-leadline",
        "… + zero share, NaN, non-finite: leadline",
        lambda: leadline_statistics(WIDEST_STATISTICS, ["update_ratio"]),
        1.30,
    ),
    Case(
        "standard-leadline", "preset standard without activations: leadline", leadline_preset, 1.02, steps=50, factor=5
    ),
    Case(
        "rules-leadline",
        "standard, all rules, without captures every 500: leadline",
        leadline_rules,
        1.02,
        steps=50,
        factor=5,
    ),
    Case("first-leadline", "standard, all rules, first 20 steps: leadline", leadline_rules_first),
    Case("layers-leadline", "activations every 20 steps (standard: every 500): leadline", leadline_activations),
    Case(
        "idle-leadline",
        "a step with nothing to capture: leadline",
        leadline_idle,
        50.0,
        steps=1000,
        factor=5,
        is_idle=True,
        workload=workload.small,
    ),
    Case(
        "idle200-leadline",
        "a step with nothing to capture, 200 modules: leadline",
        leadline_idle,
        50.0,
        steps=200,
        factor=5,
        is_idle=True,
        workload=workload.deep,
    ),
    Case(
        "eval-leadline",
        "an eval step with loss and accuracy: leadline",
        leadline_evaluation,
        steps=50,
        workload=workload.evaluation,
    ),
)


class Bench:
    """Measures cases in this process."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._expected = self._found = 0
        self._overhead_shares: list[float] = []
        """The share of each block's time that Leadline's code took in the training's thread."""

    def measure(self, case: Case, rounds: int) -> Row:
        """Measure one row: ``rounds`` pairs of blocks."""
        training = case.workload()
        training.step()
        self._expected = self._found = 0
        self._overhead_shares = []
        try:
            times = harness.pairs(
                lambda: self._block(Bare(), training, case),
                lambda: self._block(case.make(), training, case),
                count=rounds,
                on_pair=lambda index, bare, other: harness.progress(
                    f"  {case.key} {index + 1}/{rounds}: "
                    f"bare {1e3 * bare / case.steps:.2f} ms per step, x{other / bare:.3f}"
                ),
            )
        except NotAvailableError as error:
            return unavailable(case, str(error))
        return self._row(case, times)

    def _block(self, contender: Contender, training: workload.Workload, case: Case) -> float:
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        gc.collect()
        training = contender.open(folder, training)
        if case.is_idle:
            seconds = harness.elapsed_seconds(lambda: _train(training, case.steps, contender))
            contender.close()
        else:
            seconds = harness.elapsed_seconds(lambda: _train_and_close(training, case.steps, contender))
        stored = contender.count(case.steps)
        self._add(stored)
        if not case.is_idle and hasattr(contender, "overhead_seconds"):
            self._overhead_shares.append(contender.overhead_seconds / seconds)
        # now, or the kernel would write these pages back during the next block
        shutil.rmtree(folder)
        return seconds

    def _overhead_note(self) -> str:
        shares = self._overhead_shares
        return f"; overhead {100 * harness.spread(shares).median:.2f} % of the time" if shares else ""

    def _add(self, stored: Stored) -> None:
        self._expected += stored.expected
        self._found += min(stored.found, stored.expected)

    def _row(self, case: Case, times: Sequence[tuple[float, float]]) -> Row:
        if case.is_idle:
            values = [1e6 * (other - bare) / case.steps for bare, other in times]
        else:
            values = [other / bare for bare, other in times]
        bare_ms = 1e3 * harness.spread([bare for bare, _ in times]).median / case.steps
        return Row(
            name=case.name,
            unit="us" if case.is_idle else "x",
            spread=harness.spread(values),
            limit=_limit(case),
            asked=self._expected,
            found=self._found,
            note=f"bare {bare_ms:.3g} ms per step" + self._overhead_note(),
            values=tuple(values),
            details={"key": case.key, "seconds": times, "steps": case.steps},
        )


def _train(training: workload.Workload, steps: int, contender: Contender) -> None:
    is_overridden = type(contender).before_update is not Contender.before_update
    before_update = contender.before_update if is_overridden else None
    for _ in range(steps):
        training.step(before_update)


def _train_and_close(training: workload.Workload, steps: int, contender: Contender) -> None:
    _train(training, steps, contender)
    contender.close()


def _limit(case: Case) -> Limit | None:
    return None if case.limit is None else Limit(case.limit)


def unavailable(case: Case, reason: str) -> Row:
    """Return the row of a case that cannot be measured."""
    harness.progress(f"  {case.key}: {reason}")
    return Row(case.name, "us" if case.is_idle else "x", None, _limit(case), note=reason, details={"key": case.key})


def measure_in_smdebug_environment(case: Case, options: argparse.Namespace, scratch: Path) -> Row:
    """Measure a row, and its bare training, in the environment of smdebug."""
    if not SMDEBUG.exists():
        return unavailable(case, "no .venvs/smdebug: run scripts/setup benchmarks")
    result = scratch / f"{case.key}.json"
    command = [str(SMDEBUG), __file__, "--here", "--rows", case.key, "--json", str(result)]
    command += ["--scratch", str(scratch), "--rounds", str(harness.rounds_of(options))]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not result.exists():
        return unavailable(case, "failed in .venvs/smdebug; see its message above")
    return harness.row_from_dict(json.loads(result.read_text())["rows"][0])


def select_cases(keys: str | None) -> list[Case]:
    """Return the cases whose key contains one of the comma-separated keys; all for None."""
    if keys is None:
        return list(CASES)
    selected = [case for case in CASES if any(key in case.key for key in keys.split(","))]
    if not selected:
        sys.exit(f"capture.py: no row named {keys!r}; known: {', '.join(case.key for case in CASES)}")
    return selected


def main() -> int:
    parser = harness.arguments(__doc__, rounds=20, quick_rounds=2)
    parser.add_argument("--rows", help="only rows whose key contains one of these, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the keys of all rows")
    parser.add_argument("--scratch", type=Path, default=harness.RESULTS, help="a folder on the disk to measure")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{case.key:20}{case.name}" for case in CASES))
        return 0
    cases = select_cases(options.rows)
    started = harness.machine()
    options.scratch.mkdir(parents=True, exist_ok=True)
    rounds = harness.rounds_of(options)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=options.scratch) as scratch:
        bench = Bench(Path(scratch))
        for case in cases:
            harness.progress(case.name)
            if case.environment != "torch" and not options.here:
                rows.append(measure_in_smdebug_environment(case, options, Path(scratch)))
            else:
                rows.append(bench.measure(case, rounds if options.quick else rounds * case.factor))
            harness.save("capture", rows, started=started, options=options)
    return harness.report("capture", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
