"""The parts of a training that a verdict covers: one table for rules, outcome and page."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from leadline.records.documents import SummarizedRule
from leadline.records.verdict_scope import OF_THE_MACHINE, PARTS, covered, words
from leadline.rules.registry import BUILT_IN, DEFAULT

ROOT = Path(__file__).resolve().parents[3]


def rule(name: str, verdict: str, *, alias: str = "") -> SummarizedRule:
    status = "IssuesFound" if verdict == "fired" else "NoIssuesFound"
    return SummarizedRule(name=alias or name, rule=name, status=status, verdict=verdict, findings=verdict == "fired")


def test_every_default_rule_belongs_to_one_part_or_to_the_machine() -> None:
    of_parts = [name for part in PARTS for name in part.rules]
    assert len(of_parts) == len(set(of_parts))
    assert set(of_parts) == set(DEFAULT) - OF_THE_MACHINE - {"closing_remarks"}
    assert {name for name, path in BUILT_IN.items() if ".rules.system." in path} == OF_THE_MACHINE


def test_a_part_is_seen_where_a_rule_is_clear() -> None:
    rules = [rule("no_gradient", "clear"), rule("exploding_gradient", "undecided"), rule("loss_input", "undecided")]
    assert covered(rules) == (["gradients"], ["loss inputs"])
    assert words(rules) == (" in gradients", "; too little was seen of loss inputs")
    assert covered([rule("no_split", "not_applicable"), rule("input_bound", "clear")]) == ([], [])
    assert covered([rule("no_learning", "fired"), rule("skipped_steps", "undecided")]) == ([], [])
    assert covered([rule("loss_spike", "clear", alias="mine")]) == (["losses"], [])
    assert words([]) == ("", "")


def test_the_page_is_made_from_the_table() -> None:
    """Update it with ``scripts/scope_page.py``."""
    spec = importlib.util.spec_from_file_location("scope_page", ROOT / "scripts" / "scope_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.PAGE.read_text()
    assert script.page(text) == text
    assert all(f"| {part.name} | " in text for part in PARTS)
