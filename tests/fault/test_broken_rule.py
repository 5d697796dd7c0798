"""A rule that raises or hangs gets the status Error; other rules and the training are not affected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launching import PATIENCE, Ended, bare, environment, rule, script, show, watched

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
        time.sleep(3600)
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
    assert any("1 failed" in line for line in ended.said)


def test_a_rule_that_hangs(tmp_path: Path, unwatched: Ended) -> None:
    (tmp_path / "my_rules.py").write_text(RULES)
    ended = watched(("--rule", "my_rules.py:Hangs"), script("healthy.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (0, unwatched.out)
    assert any("rule evaluation is stuck; terminating it" in line for line in ended.said)
    assert any("evaluation incomplete, complete it with: leadline judge" in line for line in ended.said)
    said = ended.show()
    assert said["status"] == "Completed"
    # judged afterwards, with a shorter timeout
    subprocess.run(
        [sys.executable, "-m", "leadline.judge", ended.run.path, "--follow", "--hang-seconds", "1"],
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    said = show(ended.run.path)
    assert rule(said, "hangs")["status"] == "Error"
    assert "no answer for 1 s" in rule(said, "hangs")["why"]
    assert rule(said, "exploding_tensor")["verdict"] == "clear"
