"""What it costs to store what a training does: Leadline and its peers against the bare training.

Blocks of steps with and without the contender take turns within one process (ABBA). A block's time includes
closing the contender, so that nothing may be left undone. A row counts only when everything that was asked is on
disk: the files of every block are opened and counted, then deleted. Ratios count; absolute times on shared
machines do not.
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
    """Its name for ``--rows``."""
    name: str
    make: Callable[[], Contender]
    limit: float | None = None
    steps: int = 20
    """Steps of a block."""
    factor: int = 1
    """Times the asked rounds; a ratio of 1.02 needs 100 pairs."""
    environment: str = "torch"
    is_idle: bool = False
    """Whether microseconds a step count, instead of a ratio."""
    workload: Callable[[], workload.Workload] = workload.transformer


WIDER = (*CORE, "std", "variance")
WIDEST = (*WIDER, "zero_ratio", "nan_count", "nonfinite_count")

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
    Case("core-naive", "core statistics: one torch call each", NaiveStatistics),
    Case(
        "wider-leadline",
        "core + std, variance, update_ratio: leadline",
        lambda: leadline_statistics(WIDER, ["update_ratio"]),
        1.20,
    ),
    Case(
        "widest-leadline",
        "… + zero share, NaN, non-finite: leadline",
        lambda: leadline_statistics(WIDEST, ["update_ratio"]),
        1.30,
    ),
    Case(
        "standard-leadline", "preset standard, activations apart: leadline", leadline_preset, 1.02, steps=50, factor=5
    ),
    Case(
        "rules-leadline",
        "standard, all rules on, once in 500 apart: leadline",
        leadline_rules,
        1.02,
        steps=50,
        factor=5,
    ),
    Case("first-leadline", "standard, all rules on, the first 20 steps: leadline", leadline_rules_first),
    Case("layers-leadline", "activations once in 20 steps (standard: in 500): leadline", leadline_activations),
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
        "an eval step, its loss and accuracy: leadline",
        leadline_evaluation,
        steps=50,
        workload=workload.evaluation,
    ),
)


class Bench:
    """Measures cases in this process."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._asked = self._found = 0
        self._own: list[float] = []
        """Of each block of Leadline's, the share of the time that its own code took in the training's thread."""

    def measure(self, case: Case, rounds: int) -> Row:
        """One row: ``rounds`` pairs of blocks."""
        watched = case.workload()
        watched.step()
        self._asked = self._found = 0
        self._own = []
        try:
            times = harness.pairs(
                lambda: self._block(Bare(), watched, case),
                lambda: self._block(case.make(), watched, case),
                count=rounds,
                on_pair=lambda index, bare, other: harness.progress(
                    f"  {case.key} {index + 1}/{rounds}: "
                    f"bare {1e3 * bare / case.steps:.2f} ms a step, x{other / bare:.3f}"
                ),
            )
        except NotAvailableError as error:
            return unavailable(case, str(error))
        return self._row(case, times)

    def _block(self, contender: Contender, watched: workload.Workload, case: Case) -> float:
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        gc.collect()
        watched = contender.open(folder, watched)
        if case.is_idle:
            seconds = harness.elapsed_seconds(lambda: _train(watched, case.steps, contender))
            contender.close()
        else:
            seconds = harness.elapsed_seconds(lambda: _train_and_close(watched, case.steps, contender))
        stored = contender.count(case.steps)
        self._add(stored)
        if not case.is_idle and hasattr(contender, "own_seconds"):
            self._own.append(contender.own_seconds / seconds)
        # before the next block, or the kernel would write this one's pages at its cost
        shutil.rmtree(folder)
        return seconds

    def _own_share(self) -> str:
        return f"; own code {100 * harness.spread(self._own).median:.2f} % of it" if self._own else ""

    def _add(self, stored: Stored) -> None:
        self._asked += stored.asked
        self._found += min(stored.found, stored.asked)

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
            asked=self._asked,
            found=self._found,
            note=f"bare {bare_ms:.3g} ms a step" + self._own_share(),
            values=tuple(values),
            details={"key": case.key, "seconds": times, "steps": case.steps},
        )


def _train(watched: workload.Workload, steps: int, contender: Contender) -> None:
    is_called = type(contender).before_update is not Contender.before_update
    before_update = contender.before_update if is_called else None
    for _ in range(steps):
        watched.step(before_update)


def _train_and_close(watched: workload.Workload, steps: int, contender: Contender) -> None:
    _train(watched, steps, contender)
    contender.close()


def _limit(case: Case) -> Limit | None:
    return None if case.limit is None else Limit(case.limit)


def unavailable(case: Case, why: str) -> Row:
    """The row of a case that cannot be measured."""
    harness.progress(f"  {case.key}: {why}")
    return Row(case.name, "us" if case.is_idle else "x", None, _limit(case), note=why, details={"key": case.key})


def measure_elsewhere(case: Case, options: argparse.Namespace, scratch: Path) -> Row:
    """A row of a peer that needs an environment of its own, measured there against bare there."""
    if not SMDEBUG.exists():
        return unavailable(case, "no .venvs/smdebug: run scripts/setup benchmarks")
    result = scratch / f"{case.key}.json"
    command = [str(SMDEBUG), __file__, "--here", "--rows", case.key, "--json", str(result)]
    command += ["--scratch", str(scratch), "--rounds", str(harness.rounds_of(options))]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not result.exists():
        return unavailable(case, "failed in .venvs/smdebug; its message stands above")
    return harness.row_from_dict(json.loads(result.read_text())["rows"][0])


def chosen(wanted: str | None) -> list[Case]:
    """The cases whose key is named, or contains a name."""
    if wanted is None:
        return list(CASES)
    found = [each for each in CASES if any(part in each.key for part in wanted.split(","))]
    if not found:
        sys.exit(f"capture.py: no row named {wanted!r}; known: {', '.join(each.key for each in CASES)}")
    return found


def main() -> int:
    parser = harness.arguments(__doc__, rounds=20, quick_rounds=2)
    parser.add_argument("--rows", help="only rows whose key contains one of these, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the keys of all rows")
    parser.add_argument("--scratch", type=Path, default=harness.RESULTS, help="folder on the disk to measure")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{each.key:20}{each.name}" for each in CASES))
        return 0
    cases = chosen(options.rows)
    started = harness.machine()
    options.scratch.mkdir(parents=True, exist_ok=True)
    rounds = harness.rounds_of(options)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=options.scratch) as scratch:
        bench = Bench(Path(scratch))
        for case in cases:
            harness.progress(case.name)
            if case.environment != "torch" and not options.here:
                rows.append(measure_elsewhere(case, options, Path(scratch)))
            else:
                rows.append(bench.measure(case, rounds if options.quick else rounds * case.factor))
            harness.save("capture", rows, started=started, options=options)
    return harness.report("capture", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
