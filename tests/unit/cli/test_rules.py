"""``leadline rules``: the list, the description of a rule, and the template of a custom rule."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.cli.rules import rules
from leadline.config.parameters import parameter_types
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.judge import judge_run
from leadline.judge.run_trust import RunTrust
from leadline.records.manifest import RuleSpec
from leadline.rules.registry import AMAZON, BUILT_IN, DEFAULT, GROUPS, find_rule
from leadline.testing.runs import Capture, RunWriter


def test_every_rule_is_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    rules()
    listed = capsys.readouterr().out
    for name in BUILT_IN:
        assert name in listed
        rules(name)
        description = capsys.readouterr().out
        for heading in ("Why it matters", "How it decides", "Blind spots", "Source"):
            assert heading in description
        parameters = parameter_types(find_rule(name))
        assert ("Parameters" in description) == bool(parameters)
        assert all(re.search(rf"^  {parameter}  +\S", description, re.MULTILINE) for parameter in parameters)
        assert "``" not in description
        assert max(map(len, description.splitlines())) <= 100
        for amazon in (amazon for amazon, ours in AMAZON.items() if ours == name):
            assert amazon in description


def test_every_built_in_rule_has_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(BUILT_IN)
    rules()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [f"{title}: fires when" for title in GROUPS]
    (line,) = (line for line in lines if "vanishing_gradient" in line)
    assert line.endswith(" is below a threshold [VanishingGradient]"), "one line for each rule in a pipe"


def test_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rules(as_json=True)
    listed = {rule["name"]: rule for rule in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(BUILT_IN)
    assert {name for name, rule in listed.items() if rule["is_default"]} == set(DEFAULT)
    rules("VanishingGradient", as_json=True)
    described = json.loads(capsys.readouterr().out)
    assert described == listed["vanishing_gradient"]
    (threshold,) = described["parameters"]
    assert (threshold["takes"], threshold["default"]) == ("a number > 0", 1e-7)
    assert (described["group"], described["sagemaker_names"]) == ("Gradients and weights", ["VanishingGradient"])


def test_an_unknown_rule() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'DeadRelu'"):
        rules("DeadRelo")


def test_the_template_is_a_working_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules(new="loss_too_high.py")
    assert find_rule("loss_too_high.py:LossTooHigh")(limit=1.0).name == "loss_too_high"
    parts = [Capture(step, {"loss": {"value": 5.0}}) for step in range(4)]
    spec = RuleSpec("mine", "loss_too_high.py:LossTooHigh", {"limit": 4.0}, str(tmp_path))
    writer = RunWriter(tmp_path / "run", rules=(spec,)).write_all(parts).end()
    (judged,) = judge_run(writer.path, trust=RunTrust(is_whole=True)).rules
    assert judged.findings[0].message == "loss is 5, above 4 for 3 saved steps"


def test_the_template_contains_a_test_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules(new="mine.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("path", ["mine", "my-rule.py", "3.py"])
def test_a_file_that_cannot_be_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"my_rule\.py"):
        rules(new=path)
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    with pytest.raises(ConfigurationError, match="file already exists"):
        rules(new=str(tmp_path / "mine.py"))
    assert (tmp_path / "mine.py").read_text() == "mine"
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        rules(new=str(tmp_path / "nowhere" / "mine.py"))
