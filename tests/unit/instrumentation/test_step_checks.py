"""At which steps a training is checked, and which results are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.instrumentation.check import StepChecks, TimeLimit
from leadline.records.check_result import CheckResult


class Copy:
    """A copy whose probes are ready at once."""

    def __init__(self, outcome: str, step: int, *, is_in_place: bool = False) -> None:
        self.outcome, self.step, self.is_in_place = outcome, step, is_in_place

    def start(self, probes: Sequence[str], limit: TimeLimit) -> None:
        if self.outcome == "raised":
            raise MemoryError("no copy")
        self.probes = probes

    def results(self, *, waits: bool) -> list[CheckResult]:
        return [CheckResult(probe, self.outcome, "it did", self.step) for probe in self.probes]


def checks_of(folder: Path, recorded: dict[str, Any]) -> StepChecks:
    context: Any = SimpleNamespace(run=str(folder), worker="rank0-1")
    fact: Any = None
    return StepChecks(["model_inputs"], None, context, fact, recorded.__setitem__)


def checked_steps(checks: StepChecks, outcomes: Sequence[str], *, is_in_place: bool = False) -> list[int]:
    made, left = [], list(outcomes)
    for step in range(600):
        if checks.checks_step(step):
            made.append(step)
            checks.begin(Copy(left.pop(0) if left else "passed", step, is_in_place=is_in_place), step)
        checks.poll()
    return made


def test_a_forked_copy_is_checked_three_times_and_a_waiting_training_twice(tmp_path: Path) -> None:
    assert checked_steps(checks_of(tmp_path, {}), []) == [2, 101, 501]
    assert checked_steps(checks_of(tmp_path, {}), [], is_in_place=True) == [2, 501]


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [
        (["passed", "passed", "passed"], ("passed", 501)),
        (["failed", "passed", "passed"], ("failed", 2)),
        (["passed", "failed", "passed"], ("failed", 101)),
        (["passed", "not applicable", "not applicable"], ("passed", 2)),
        (["not applicable", "passed", "not applicable"], ("passed", 101)),
        (["raised", "raised", "raised"], ("not applicable", 501)),
        (["raised", "passed", "raised"], ("passed", 101)),
    ],
)
def test_a_failure_stays_and_else_the_latest_that_could_be_decided(
    tmp_path: Path, outcomes: list[str], kept: tuple[str, int]
) -> None:
    recorded: dict[str, Any] = {}
    checked_steps(checks_of(tmp_path, recorded), outcomes)
    found = recorded["checks"]["model_inputs"]
    assert (found["outcome"], found["step"]) == kept


class SlowCopy(Copy):
    """A copy whose probes are ready when a training waits for them, or is told that they are."""

    is_ready = False

    def results(self, *, waits: bool) -> list[CheckResult] | None:  # type: ignore[override]
        return super().results(waits=waits) if waits or self.is_ready else None


def test_a_second_copy_is_made_while_the_first_one_is_tested_and_no_third_one(tmp_path: Path) -> None:
    recorded: dict[str, Any] = {}
    checks, made = checks_of(tmp_path, recorded), list[SlowCopy]()
    for step in range(600):
        if checks.checks_step(step):
            made.append(SlowCopy("passed", step))
            checks.begin(made[-1], step)
        if step == 520:
            assert [copy.step for copy in made] == [2, 101]
            made[1].is_ready = True  # the later one is ready first
        checks.poll()
    assert [copy.step for copy in made] == [2, 101, 521]
    assert recorded["checks"]["model_inputs"]["step"] == 101
    checks.close()
    assert recorded["checks"]["model_inputs"]["step"] == 521
