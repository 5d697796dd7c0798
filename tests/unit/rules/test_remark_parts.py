"""Remarks on one fact each."""

from __future__ import annotations

import pytest
from rule_scenarios import captured

from leadline.records.names import SCALED_CLIP, UNACCUMULATED
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.windows import verdicts


def remarks(*steps: dict[str, float]) -> list[str]:
    """Return the remarks after steps with these checks."""
    parts = [
        captured(step, {name: {"value": number} for name, number in checks.items()} | {"loss": {"value": 1.0}})
        for step, checks in enumerate(steps)
    ]
    return list(verdicts(ClosingRemarks(), parts)[-1][1].product["remarks"])


def clip(limit: float, norm: float, scale: float) -> dict[str, float]:
    return {f"GradScaler/{check}": number for check, number in zip(SCALED_CLIP, (limit, norm, scale), strict=True)}


def test_a_clip_far_below_the_scale_of_the_gradients_is_named() -> None:
    (remark,) = remarks(*[clip(1.0, 5000.0, 1024.0)] * 3)
    assert remark.startswith("gradients were clipped to a norm of 1 at 3 captured steps while the GradScaler still")
    assert "by 1,024: after the division 0.000977 is left" in remark


@pytest.mark.parametrize(
    "steps",
    [
        [clip(1.0, 5000.0, 1024.0)] * 2,
        [clip(1024.0, 5000.0, 1024.0)] * 3,  # the limit was multiplied, too
        [clip(1.0, 0.5, 1024.0)] * 3,  # nothing was clipped
        [clip(float("inf"), 5000.0, 1024.0)] * 3,  # the norm alone was asked for
    ],
)
def test_other_clips_are_not_named(steps: list[dict[str, float]]) -> None:
    assert remarks(*steps) == []


def test_facts_about_the_program_are_possible_causes_and_losses_are_not() -> None:
    losses = [{"loss": {"value": 1 - 0.01 * step}} for step in range(60)]
    parts = [
        captured(step, loss | {"Net/unmoved_averages": {"value": 2.0}} if step == 0 else loss)
        for step, loss in enumerate(losses)
    ]
    product = verdicts(ClosingRemarks(), parts)[-1][1].product
    falling, unmoved = product["remarks"]
    assert falling.startswith("the loss was still falling after 60 updates")
    assert product["possible_causes"] == [unmoved]


def test_a_copy_with_averages_of_the_start_is_named() -> None:
    (remark,) = remarks({"Net/unmoved_averages": 2.0})
    assert remark.startswith("another model (Net), whose weights change, too, is evaluated with running averages")
    assert "as at the start, in 2 of its normalizations" in remark


@pytest.mark.parametrize(
    ("steps", "batches", "is_named"), [(8, 8, True), (16, 12, False), (2, 4, False), (8, 0, False)]
)
def test_batches_with_an_update_each_are_named_where_they_were_to_be_accumulated(
    steps: int, batches: int, is_named: bool
) -> None:
    counts = dict(zip(UNACCUMULATED, (steps, batches), strict=True))
    found = remarks({f"Accelerate/{check}": float(count) for check, count in counts.items()})
    assert [remark.startswith(f"Accelerate is to accumulate gradients over {steps} batches") for remark in found] == (
        [True] * is_named
    )


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("target/stuck_copy", "another model (target), of the shapes of the trained one, is written again and again"),
        ("sequential/untrained_variables", "fit does not train 4 weights of sequential that are trainable now"),
        ("PPO/unused_load", "PPO.load has returned a model that was never used, while another PPO, which there was"),
        ("train/watched_training_set", "early stopping watches train, which is the training data, and no other"),
        ("training/unwatched_training_set", "early stopping never stops: LightGBM leaves the training data (training)"),
        ("model/uncalled_regularizers", "4 trained weights have a regularizer that was never called"),
    ],
)
def test_what_is_counted_is_named_until_it_is_none_any_more(check: str, words: str) -> None:
    (remark,) = remarks({check: 4.0})
    assert remark.startswith(words)
    assert remarks({check: 4.0}, {check: 0.0}) == []
    (again,) = remarks({check: 0.0}, {check: 4.0})
    assert again == remark


@pytest.mark.parametrize(
    ("hint", "loaded", "words"),
    [
        ({}, 0, "none of the 62 entries of a state fit Net, so that load_state_dict(strict=False) has loaded nothing"),
        ({"Net/module./fitting_without_prefix": 60.0}, 0, "nothing: with `module.` removed from their names 60 would"),
        ({"Net/body./fitting_behind_prefix": 60.0}, 2, "no more: with `body.` before their names 60 would"),
        ({"Net/body./fitting_behind_prefix": 60.0}, 2, "only 2 of the 62 entries of a state fit Net, so that"),
        ({"Net/state/fitting_within_entry": 9.0}, 0, "nothing: its entry `state` holds 9 that would"),
        ({"Other/state/fitting_within_entry": 9.0}, 0, "load_state_dict(strict=False) has loaded nothing"),
    ],
)
def test_states_that_do_not_fit_are_named(hint: dict[str, float], loaded: float, words: str) -> None:
    (remark,) = remarks({"Net/entries_of_state": 62.0, "Net/loaded_entries": loaded} | hint)
    assert remark.startswith(words) or remark.endswith(words)
