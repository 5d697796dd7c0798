"""A rule's docstring in parts: nothing of it is lost, and nobody's file is run for being looked at."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from leadline.rules import registry
from leadline.rules.documentation import read_documentation


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_every_word_of_a_docstring_is_in_some_part(name: str) -> None:
    found = read_documentation(name)
    assert found is not None
    told = [found.summary, *(part for each in found.sections for part in each)]
    told += [f"{each.name} {each.about}" for each in found.parameters]
    written = re.sub(r"(?m)^Args:$", "", inspect.getdoc(registry.find_rule(name)) or "")
    assert sorted(re.findall(r"\w+", " ".join(told))) == sorted(re.findall(r"\w+", written))
    assert all(each.about and each.takes for each in found.parameters)


def test_a_parameter_says_what_it_takes_and_its_default() -> None:
    found = read_documentation("vanishing_gradient")
    assert found is not None
    (threshold,) = found.parameters
    assert (threshold.name, threshold.takes, threshold.default) == ("threshold", "a number > 0", 1e-7)
    assert found.summary == "Fires when the mean absolute gradient of a parameter is below a threshold."
    assert [heading for heading, _ in found.sections][:2] == ["Why it matters", "How it decides"]
    assert found.section("Blind spots").startswith("Adam and its kin")
    assert found.section("Fables") == ""


def test_amazons_name_leads_to_the_same() -> None:
    found = read_documentation("VanishingGradient")
    assert found is not None
    assert (found.name, found.amazon) == ("vanishing_gradient", ("VanishingGradient",))


def test_a_rule_of_ones_own_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    assert read_documentation(f"{file}:Mine") is None
    assert not (tmp_path / "was_run").exists()


def test_a_name_of_nothing_has_none() -> None:
    assert read_documentation("no_such_rule") is None
