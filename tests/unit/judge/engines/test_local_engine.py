"""The local engine: the same verdicts as each run judged alone, whatever a rule does to its process."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from children import running_children

from leadline.errors import UnknownNameError
from leadline.judge.engines.engine import Judged, LocalEngine, Task
from leadline.judge.engines.selection import make_engine
from leadline.judge.judge import judge_run
from leadline.judge.rule_pool import WorkerLimits
from leadline.records.manifest import RuleSpec
from leadline.testing.runs import Capture, Part, RunWriter

BUILT_IN = (RuleSpec("bad", "exploding_tensor"), RuleSpec("gone", "vanishing_gradient"))
STRANGE = """
import os, time
from leadline.rules import Clear, Fired, Needs, Rule

kept = []

class Strange(Rule):
    does: str = "nothing"

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        if window.step == 4:
            match self.does:
                case "raise":
                    raise KeyError("its own")
                case "hang":
                    time.sleep(600)
                case "eat":
                    kept.append(bytearray(1 << 30))
                case "die":
                    os._exit(3)
        return Fired("as asked") if window.step == 2 else Clear()
"""
LIMITS = WorkerLimits(hang_seconds=5.0, memory_bytes=512 << 20)


def losses(bad: int, steps: int = 8) -> list[Part]:
    return [Capture(step, {"loss": {"value": float("nan") if step == bad else 1.0}}) for step in range(steps)]


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    (tmp_path / "strange.py").write_text(STRANGE)
    return [RunWriter(tmp_path / f"run-{bad}").write_all(losses(bad)).end().path for bad in range(7)]


def strange(folder: Path, does: str) -> RuleSpec:
    return RuleSpec(does, "strange.py:Strange", {"does": does}, folder=str(folder))


def judged(runs: Sequence[str], rules: Sequence[RuleSpec], workers: int = 2) -> dict[str, Judged]:
    tasks = [Task(run, tuple(rules)) for run in runs]
    answers = list(LocalEngine(workers, limits=LIMITS).judge(tasks))
    assert sorted(each.run for each in answers) == sorted(runs)
    return {each.run: each for each in answers}


def rule_workers() -> list[int]:
    return [each.pid for each in running_children("leadline.judge.rule_worker")]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_runs_are_judged_as_each_alone(runs: list[str], workers: int) -> None:
    found = judged(runs, BUILT_IN, workers)
    for bad, run in enumerate(runs):
        alone = judge_run(run, BUILT_IN)
        assert found[run] == Judged(run, alone.rules, alone.damage)
        assert [each.findings[0].step for each in found[run].rules if each.findings] == [bad]
    assert rule_workers() == []


@pytest.mark.slow
def test_a_rule_that_fails_is_its_own_error_in_every_run(runs: list[str], tmp_path: Path) -> None:
    wanted = {
        "nothing": "",
        "raise": "KeyError: 'its own' (strange.py:17)",
        "hang": "did not return within 5 s at step 4",
        "eat": "MemoryError: it exceeded the memory limit for rules (strange.py:21)",
        "die": "its process exited with status 3",
    }
    found = judged(runs[:3], [*BUILT_IN, *(strange(tmp_path, does) for does in wanted)])
    for bad, run in enumerate(runs[:3]):
        results = {each.name: each for each in found[run].rules}
        assert {name: results[name].why for name in wanted} == wanted
        assert [results[name].status for name in wanted] == ["IssuesFound", *["Error"] * 4]
        assert results["raise"].findings[0].step == 2
        assert results["bad"].findings[0].step == bad
        assert results["gone"].verdict == "undecided"
    assert rule_workers() == []


def test_a_run_that_cannot_be_judged_is_a_line_and_the_others_go_on(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "manifest.json").write_text(json.dumps({"name": "torn"})[:-3])
    nowhere, torn = str(tmp_path / "nowhere"), str(tmp_path / "torn")
    found = judged([nowhere, runs[0], torn, runs[1]], BUILT_IN)
    assert found[nowhere].problem == f"there is no run at {nowhere}; leadline ls lists the runs"
    assert found[torn].problem.startswith(f"{torn}/manifest.json cannot be read as a manifest")
    assert [found[run].rules[0].status for run in runs[:2]] == ["IssuesFound"] * 2


def test_closing_it_ends_all_at_once(runs: list[str], tmp_path: Path) -> None:
    tasks = [Task(run, (*BUILT_IN, strange(tmp_path, "hang"))) for run in runs[1:]]
    patient = LocalEngine(2, limits=WorkerLimits(hang_seconds=1000.0))
    with closing(patient.judge([Task(runs[0], BUILT_IN), *tasks])) as answers:
        assert next(answers).run == runs[0]
    assert rule_workers() == []
    assert [each for each in threading.enumerate() if each.name.startswith("judge")] == []


def test_no_run_is_nothing_to_judge() -> None:
    assert list(LocalEngine().judge([])) == []


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'local'"):
        make_engine("locl")
