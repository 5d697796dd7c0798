"""A rule that raises or hangs gets the status Error; other rules and the training are not affected."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from launching import PATIENCE, Ended, bare, environment, rule, script, show, wait_for, watched
from own_judge import judge_of

from leadline.records.documents import RuleDocument
from leadline.store.run_state import read_rule

pytestmark = pytest.mark.slow

RULES = '''
import time

from leadline.records.needs import Needs
from leadline.records.verdict import Clear
from leadline.rules.rule import Rule


class Raises(Rule):
    """Raises at a step."""

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        if window.step == 40:
            raise ZeroDivisionError("a rule's own mistake")
        return Clear()


class Hangs(Raises):
    """Never answers."""

    def evaluate(self, window):
        if window.step == 7:
            time.sleep(3600)
        return Clear()
'''


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("healthy.py", folder=tmp_path_factory.mktemp("bare"))


def test_a_rule_that_raises(tmp_path: Path, unwatched: Ended) -> None:
    (tmp_path / "my_rules.py").write_text(RULES)
    ended = watched(("--rule", "my_rules.py:Raises"), script("healthy.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (0, unwatched.out)
    said = ended.show()
    broken = rule(said, "raises")
    assert broken["status"] == "Error"
    assert "ZeroDivisionError" in broken["why"]
    assert "a rule's own mistake" in broken["why"]
    assert rule(said, "exploding_tensor")["verdict"] == "clear"
    assert "1 failed" in " ".join(ended.err.split())


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("hung")
    (folder / "my_rules.py").write_text(RULES)
    return watched(("--rule", "my_rules.py:Hangs"), script("healthy.py"), folder=folder)


def test_a_rule_that_hangs(hung: Ended, unwatched: Ended) -> None:
    assert (hung.status, hung.out) == (0, unwatched.out)
    said = hung.show()
    assert said["status"] == "Completed"
    assert (rule(said, "hangs")["status"], rule(said, "hangs")["why"]) == (
        "Error",
        "did not return within 10 s at step 7",
    )
    assert rule(said, "exploding_tensor")["verdict"] == "clear"
    assert "InProgress" not in {entry["status"] for entry in said["rules"]}
    assert json.loads(Path(hung.run.path, "rules", "summary.json").read_text())["complete"]


def test_a_judge_that_is_terminated_leaves_no_rule_in_progress(hung: Ended) -> None:
    run = hung.run.path
    judge = subprocess.Popen(judge_of(run, "--follow"), env=environment())
    try:
        wait_for(lambda: (read_rule(run, "hangs") or RuleDocument()).status == "InProgress", "the judge")
    finally:
        judge.terminate()
        judge.wait(PATIENCE)
    said = show(run)
    assert (rule(said, "hangs")["status"], rule(said, "hangs")["verdict"]) == ("Stopped", "undecided")
    assert "its evaluation was ended early" in rule(said, "hangs")["why"]
    assert "InProgress" not in {entry["status"] for entry in said["rules"]}
