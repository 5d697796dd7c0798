"""Documentation of rules: complete, and without executing files of custom rules."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from leadline.rules import registry
from leadline.rules.documentation import read_documentation


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_every_word_of_a_docstring_is_in_a_section(name: str) -> None:
    rule_docs = read_documentation(name)
    assert rule_docs is not None
    texts = [rule_docs.summary, *(part for section in rule_docs.sections for part in section)]
    texts += [f"{parameter.name} {parameter.about}" for parameter in rule_docs.parameters]
    written = re.sub(r"(?m)^Args:$", "", inspect.getdoc(registry.find_rule(name)) or "")
    assert sorted(re.findall(r"\w+", " ".join(texts))) == sorted(re.findall(r"\w+", written))
    assert all(parameter.about and parameter.takes for parameter in rule_docs.parameters)


def test_a_parameter_has_type_and_default() -> None:
    rule_docs = read_documentation("vanishing_gradient")
    assert rule_docs is not None
    (threshold,) = rule_docs.parameters
    assert (threshold.name, threshold.takes, threshold.default) == ("threshold", "a number > 0", 1e-7)
    assert rule_docs.summary == "Fires when the mean absolute gradient of a parameter is below a threshold."
    assert [heading for heading, _ in rule_docs.sections][:2] == ["Why it matters", "How it decides"]
    assert rule_docs.section("Blind spots").startswith("Adam and similar optimizers")
    assert rule_docs.section("Fables") == ""


def test_the_items_of_a_list_are_lines() -> None:
    rule_docs = read_documentation("closing_remarks")
    assert rule_docs is not None
    lines = rule_docs.section("How it decides").split("\n")
    items = [line for line in lines if line.startswith("- ")]
    assert len(items) > 20
    assert max(map(len, lines)) < 900
    assert lines[0].startswith("The remarks follow the outcome of a run without problems. Where there is a problem")
    assert lines[0].endswith("It remarks that")


def test_the_sagemaker_name_finds_the_same_rule() -> None:
    rule_docs = read_documentation("VanishingGradient")
    assert rule_docs is not None
    assert (rule_docs.name, rule_docs.amazon) == ("vanishing_gradient", ("VanishingGradient",))


def test_the_file_of_a_custom_rule_is_not_executed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    assert read_documentation(f"{file}:Mine") is None
    assert not (tmp_path / "was_run").exists()


def test_an_unknown_name_has_no_documentation() -> None:
    assert read_documentation("no_such_rule") is None
