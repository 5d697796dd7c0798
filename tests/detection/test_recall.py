"""The default rules find real mistakes, and are silent on repaired programs and healthy trainings.

A sample: ``python tests/detection/recall.py`` runs all programs.
"""

from __future__ import annotations

import re

import pytest
from programs import HEALTHY, MISTAKES, PUBLIC_CODE, Result, repaired
from recall import CAUSES, PUBLIC_MISTAKES, alarms, recall, run_healthy, run_public

SAMPLE = (
    "broadcast_mse",
    "compiled_with_a_counter",
    "diverges_by_hand",
    "encoder_forgotten",
    "every_weight_a_half",
    "file_numbers_as_features",
    "pixels_in_mlp",
    "relu_never_called",
    "rewards_without_levels",
    "root_at_zero",
    "rounded_predictions",
    "softmax_after_a_look_at_the_shape",
    "softmax_one_unit_bce",
    "weights_by_hand_without_zero",
    "wide_initialization",
)
"""A mistake of each class."""
KINDS = ("distillation", "frozen_encoder", "lsgan", "policy_gradient", "warm_up_from_zero")


def test_every_program_has_a_cause_and_a_twin() -> None:
    assert set(CAUSES) == set(MISTAKES)
    assert len(HEALTHY) >= 20
    for path in MISTAKES.values():
        text, twin = path.read_text(), repaired(path).source
        assert re.search("^Mistake: .*$", text, re.MULTILINE)
        assert twin != text
        assert not re.search("# (mistake|repaired)", twin)
        compile(twin, str(path), "exec")


def test_a_mistake_can_be_put_into_public_code() -> None:
    assert {mistake.put_in().source != PUBLIC_CODE[mistake.program].read_text() for mistake in PUBLIC_MISTAKES} == {
        True
    }


def test_every_class_of_mistakes_is_in_the_sample() -> None:
    assert {MISTAKES[name].parent for name in SAMPLE} == {path.parent for path in MISTAKES.values()}


@pytest.mark.slow
def test_mistakes_are_found_and_their_twins_are_silent() -> None:
    outcomes = recall(SAMPLE)
    assert [name for name, outcome in outcomes.items() if not outcome.found] == []
    assert_silent({f"{name}-repaired": outcome.repaired for name, outcome in outcomes.items()})


@pytest.mark.slow
def test_healthy_trainings_are_silent() -> None:
    assert_silent(run_healthy(KINDS, [100], [0]))


@pytest.mark.slow
def test_mistakes_in_public_code_are_found() -> None:
    results = run_public(["gan", "gcn"])
    assert_silent({name: results[name] for name in ("gan", "gcn")})
    mistakes = [mistake for mistake in PUBLIC_MISTAKES if mistake.cause.name in results]
    assert len(mistakes) == 2
    assert [mistake.cause.name for mistake in mistakes if not mistake.cause.found(results[mistake.cause.name])] == []


def assert_silent(results: dict[str, Result]) -> None:
    assert {name: result.error for name, result in results.items() if result.error} == {}
    assert alarms(results) == {}
