"""Rule workers that are reused from run to run, without any effect of one run on the next."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest
from children import running_children

from leadline.judge.judge import Judge
from leadline.judge.rule_entry import Results, RuleResult
from leadline.judge.rule_pool import RuleProcess, WorkerLimits, WorkerProcesses, WorkersClosedError
from leadline.reader.run import open_run
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


def judged(run: str, worker_processes: WorkerProcesses, *specs: RuleSpec) -> dict[str, RuleResult]:
    results: Results = Judge(
        run, specs, is_written=False, limits=WorkerLimits(), worker_processes=worker_processes
    ).judge(follow=False)
    return {each.name: each for each in results.rules}


def children() -> set[int]:
    return {each.pid for each in running_children("leadline.judge.rule_worker")}


def test_a_process_is_reused_for_the_next_run_without_any_state(runs: list[str], tmp_path: Path) -> None:
    counting = RuleSpec("counting", "counting.py:Counting", folder=str(tmp_path))
    worker_processes = WorkerProcesses(is_kept=True)
    first = judged(runs[0], worker_processes, BUILT_IN, counting)
    kept = children()
    second = judged(runs[1], worker_processes, BUILT_IN, counting)
    assert children() == kept
    assert len(kept) == 2
    assert [each["exploding_tensor"].judged_steps for each in (first, second)] == [3, 5]
    said = [each["counting"].findings[0].message for each in (first, second)]
    # the file is run again for each run, its process is as patient in the second as in the first
    assert said[0] == said[1]
    assert said[0].startswith("asked 1 times")
    worker_processes.close()
    assert children() == set()


def test_a_process_that_crashed_is_not_reused(runs: list[str], tmp_path: Path) -> None:
    falling = RuleSpec("falling", "falling.py:Falling", folder=str(tmp_path))
    worker_processes = WorkerProcesses(is_kept=True)
    for run in runs:
        results = judged(run, worker_processes, BUILT_IN, falling)
        assert (results["falling"].status, results["falling"].why) == ("Error", "its process exited with status 7")
        assert results["exploding_tensor"].findings[0].step == 2
    assert len(children()) == 1
    worker_processes.close()


def test_a_process_that_has_not_answered_is_not_reused(runs: list[str]) -> None:
    worker_processes = WorkerProcesses(is_kept=True)
    manifest = open_run(runs[0]).manifest
    process = RuleProcess(runs[0], manifest, [BUILT_IN], WorkerLimits(), lambda alias, how: None, worker_processes)
    process.start(is_over=True)
    while not process.described:
        select.select([process.descriptor], [], [])
        process.receive()
    process.ask(is_over=True, gone=())
    process.close()
    assert children() == set()


def test_a_process_that_died_while_idle_is_replaced(runs: list[str]) -> None:
    worker_processes = WorkerProcesses(is_kept=True)
    judged(runs[0], worker_processes, BUILT_IN)
    (pid,) = children()
    os.kill(pid, 9)
    results = judged(runs[1], worker_processes, BUILT_IN)
    assert results["exploding_tensor"].status == "IssuesFound"
    assert children().isdisjoint({pid})
    worker_processes.close()


def test_a_process_that_uses_too_much_memory_is_not_reused(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.judge.rule_pool._MAX_KEPT_BYTES", 1 << 20)
    worker_processes = WorkerProcesses(is_kept=True)
    judged(runs[0], worker_processes, BUILT_IN)
    assert children() == set()


def test_a_closed_pool_returns_no_process(runs: list[str]) -> None:
    worker_processes = WorkerProcesses(is_kept=True)
    judged(runs[0], worker_processes, BUILT_IN)
    worker_processes.end()
    with pytest.raises(WorkersClosedError):
        judged(runs[1], worker_processes, BUILT_IN)
    worker_processes.close()
    assert children() == set()


def test_a_judge_without_a_pool_leaves_no_process(runs: list[str]) -> None:
    Judge(runs[0], [BUILT_IN], is_written=False).judge(follow=False)
    assert children() == set()
