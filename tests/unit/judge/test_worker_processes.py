"""Rule workers that judge one run after the other: no run feels the one before."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from leadline.judge.judge import Judge, Results, RuleResult
from leadline.judge.rule_pool import WorkerLimits
from leadline.judge.worker_processes import WorkerProcesses, WorkersClosedError
from leadline.records.manifest import RuleSpec
from leadline.testing.runs import Capture, RunWriter

BUILT_IN = RuleSpec("exploding_tensor", "exploding_tensor")
COUNTING = """
import os
from leadline.rules import Clear, Fired, Needs, Rule

asked = []

class Counting(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        asked.append(window.step)
        return Fired(f"asked {len(asked)} times by {os.getpid()}, at {os.nice(0)}")
"""
FALLING = """
import os
from leadline.rules import Clear, Needs, Rule

class Falling(Rule):
    at: int = 2

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        if window.step == self.at:
            os._exit(7)
        return Clear()
"""


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "falling.py").write_text(FALLING)
    written = []
    for name, steps in (("a", 3), ("b", 5)):
        parts = [Capture(step, {"loss": {"value": float("nan") if step == 2 else 1.0}}) for step in range(steps)]
        written.append(RunWriter(tmp_path / name).write_all(parts).end().path)
    return written


def judged(run: str, seats: WorkerProcesses, *specs: RuleSpec) -> dict[str, RuleResult]:
    results: Results = Judge(run, specs, is_written=False, limits=WorkerLimits(), seats=seats).judge(follow=False)
    return {each.name: each for each in results.rules}


def children() -> set[int]:
    return {each.pid for each in psutil.Process().children() if "leadline.judge.rule_worker" in each.cmdline()}


def test_a_process_is_kept_for_the_next_run_and_remembers_nothing_of_the_last(runs: list[str], tmp_path: Path) -> None:
    counting = RuleSpec("counting", "counting.py:Counting", folder=str(tmp_path))
    seats = WorkerProcesses(is_kept=True)
    first = judged(runs[0], seats, BUILT_IN, counting)
    kept = children()
    second = judged(runs[1], seats, BUILT_IN, counting)
    assert children() == kept
    assert len(kept) == 2
    assert [each["exploding_tensor"].judged_steps for each in (first, second)] == [3, 5]
    said = [each["counting"].findings[0].message for each in (first, second)]
    # the file is run anew for each run, its process is as patient in the second as in the first
    assert said[0] == said[1]
    assert said[0].startswith("asked 1 times")
    seats.close()
    assert children() == set()


def test_a_process_that_fell_is_not_given_to_the_next_run(runs: list[str], tmp_path: Path) -> None:
    falling = RuleSpec("falling", "falling.py:Falling", folder=str(tmp_path))
    seats = WorkerProcesses(is_kept=True)
    for run in runs:
        results = judged(run, seats, BUILT_IN, falling)
        assert (results["falling"].status, results["falling"].why) == ("Error", "its process ended with status 7")
        assert results["exploding_tensor"].findings[0].step == 2
    assert len(children()) == 1
    seats.close()


def test_a_process_that_died_while_it_waited_is_replaced(runs: list[str]) -> None:
    seats = WorkerProcesses(is_kept=True)
    judged(runs[0], seats, BUILT_IN)
    (pid,) = children()
    os.kill(pid, 9)
    results = judged(runs[1], seats, BUILT_IN)
    assert results["exploding_tensor"].status == "IssuesFound"
    assert children().isdisjoint({pid})
    seats.close()


def test_a_process_that_holds_too_much_is_not_kept(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.judge.worker_processes._MOST_KEPT_BYTES", 1 << 20)
    seats = WorkerProcesses(is_kept=True)
    judged(runs[0], seats, BUILT_IN)
    assert children() == set()


def test_seats_that_were_ended_are_given_to_nobody(runs: list[str]) -> None:
    seats = WorkerProcesses(is_kept=True)
    judged(runs[0], seats, BUILT_IN)
    seats.end()
    with pytest.raises(WorkersClosedError):
        judged(runs[1], seats, BUILT_IN)
    seats.close()
    assert children() == set()


def test_without_seats_of_its_own_a_judge_leaves_no_process(runs: list[str]) -> None:
    Judge(runs[0], [BUILT_IN], is_written=False).judge(follow=False)
    assert children() == set()
