"""The default rules find real mistakes, and are silent on repaired programs and healthy trainings."""

from __future__ import annotations

import re

import pytest
from programs import HEALTHY, MISTAKES, PUBLIC_CODE, Result, repaired
from recall import (
    CAUSES,
    PUBLIC_MISTAKES,
    alarms,
    class_table,
    healthy_table,
    public_table,
    recall,
    run_healthy,
    run_public,
)

EVERYDAY = ("head_replaced_later", "root_at_zero", "zero_grad_forgotten")
"""Mistakes of the everyday tests, all found."""
LEAST_FOUND = 10
"""The least number of mistakes found; a few less than in docs/rules/recall.md, because captures depend on time."""


def test_every_program_has_a_cause_and_a_twin() -> None:
    assert set(CAUSES) == set(MISTAKES)
    for path in MISTAKES.values():
        text, twin = path.read_text(), repaired(path).source
        assert re.search("^Mistake: .*$", text, re.MULTILINE)
        assert twin != text
        assert not re.search("# (mistake|repaired)", twin)
        compile(twin, str(path), "exec")


def test_mistakes_are_found_and_their_twins_are_silent() -> None:
    outcomes = recall(EVERYDAY)
    assert [name for name, outcome in outcomes.items() if not outcome.found] == []
    assert_silent({f"{name}-repaired": outcome.repaired for name, outcome in outcomes.items()})


def test_a_few_healthy_trainings_are_silent() -> None:
    assert_silent(run_healthy(["lsgan", "warm_up_from_zero", "images_from_zero_to_one"], [100], [0]))


@pytest.mark.slow
def test_most_mistakes_are_found_and_all_twins_are_silent() -> None:
    outcomes = recall()
    print(class_table(outcomes))
    assert_ended({name: outcome.mistaken for name, outcome in outcomes.items()})
    assert_silent({f"{name}-repaired": outcome.repaired for name, outcome in outcomes.items()})
    assert sum(bool(outcome.found) for outcome in outcomes.values()) >= LEAST_FOUND


@pytest.mark.slow
def test_healthy_trainings_are_silent() -> None:
    results = run_healthy()
    print(healthy_table(results))
    assert len(HEALTHY) >= 20
    assert_silent(results)


@pytest.mark.slow
def test_mistakes_in_public_code_are_found() -> None:
    results = run_public()
    print(public_table(results))
    assert_silent({name: results[name] for name in PUBLIC_CODE})
    missed = {mistake.cause.name for mistake in PUBLIC_MISTAKES if not mistake.cause.found(results[mistake.cause.name])}
    assert missed <= {"shuffled_labels"}


def assert_silent(results: dict[str, Result]) -> None:
    assert_ended(results)
    assert alarms(results) == {}


def assert_ended(results: dict[str, Result]) -> None:
    assert {name: result.error for name, result in results.items() if result.error} == {}
