"""Lookup of rules by name, by SageMaker's name, in files and modules; and the errors if there is none."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from leadline.config.class_registry import ClassRegistry
from leadline.errors import ConfigurationError
from leadline.rules import Rule
from leadline.rules.registry import find_rule

RULE = """
from leadline.rules import Clear, Fired, Needs, Rule
from beside import LIMIT

class LossAbove(Rule):
    limit: float = LIMIT

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Clear()

class NotOne:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_rules.py").write_text(RULE)
    (tmp_path / "beside.py").write_text("LIMIT = 3.0\n")
    return tmp_path


def test_a_class_in_a_file_that_imports_a_file_beside_it(folder: Path) -> None:
    rule = find_rule("my_rules.py:LossAbove", str(folder))
    assert rule().limit == 3.0
    assert rule(limit=4).name == "loss_above"
    assert find_rule(f"{folder}/my_rules.py:LossAbove").__name__ == "LossAbove"


def test_a_class_in_a_module() -> None:
    assert find_rule("leadline.rules.tensors.exploding_tensor:ExplodingTensor")().name == "exploding_tensor"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vanishing_gradeint", "did you mean 'vanishing_gradient'"),
        ("my_rules.py:LossAbov", "did you mean 'LossAbove'"),
        ("no_such_module_of_mine:Rule", "cannot import .*No module named"),
        ("nowhere.py:Rule", "no such rule file: .*nowhere.py"),
        ("my_rules.py:NotOne", "NotOne is not a rule"),
    ],
)
def test_a_missing_rule_gives_an_error_of_one_line(folder: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        find_rule(name, str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n\n1 / 0\n", r"broken\.py:3: ZeroDivisionError: division by zero"),
        ("def f(:\n", r"broken\.py:1: SyntaxError"),
        ("\nfrom nowhere_at_all import x\n", r"broken\.py:2: ModuleNotFoundError"),
    ],
)
def test_a_file_that_does_not_import_gives_an_error_of_one_line_with_its_location(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        find_rule("broken.py:Rule", str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_rule_of_a_plugin_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint(
        "their_rule", "leadline.rules.tensors.exploding_tensor:ExplodingTensor", "leadline.rules"
    )
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [entry] if group == entry.group else [])
    rules = ClassRegistry("rule", Rule, {}, {})
    assert rules.names() == ("their_rule",)
    assert rules.find("their_rule").__name__ == "ExplodingTensor"
