"""Which wishes may be thinned, and which go together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leadline.config.options import parse_capture
from leadline.config.presets import preset_items
from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.throttle_groups import ThrottleGroup, divide

COUNTS = ("nan_count", "nonfinite_count")


def wish(
    collection: str | None,
    *statistics: str,
    every: int = 50,
    source: str = "rule:r",
    raw: bool = False,
    modes: tuple[str, ...] = ("train",),
    regex: str | None = None,
) -> CaptureItem:
    return CaptureItem(
        collection, regex, statistics, raw=raw, schedule=Schedule(every=every), source=source, modes=modes
    )


def thinnable(*items: CaptureItem) -> list[ThrottleGroup]:
    return [group for group in divide(items) if group.kind == "thinnable"]


def statistics(groups: list[ThrottleGroup]) -> list[tuple[tuple[str | None, ...], set[str], int | None]]:
    return [
        (group.collections, {name for item in group.items for name in item.statistics}, group.schedule.every)
        for group in groups
    ]


def test_losses_scalars_and_what_options_ask_are_never_thinned() -> None:
    items = [
        wish("losses", "value", every=1),
        wish("metrics", "value"),
        wish("scalars", "value"),
        parse_capture("gradients:every=1,raw=true"),
        parse_capture("relu_output:every=1"),
    ]
    assert thinnable(*items) == []
    assert {id(item) for group in divide(items) for item in group.items} == set(map(id, items))


def test_what_a_rule_needs_of_the_first_steps_only_is_never_thinned() -> None:
    brief = CaptureItem("gradients", statistics=("p5", "p95"), schedule=Schedule(every=1, end=10), source="rule:a")
    long = CaptureItem("gradients", statistics=("p5", "p95"), schedule=Schedule(every=1, end=10_000), source="rule:b")
    assert [each.kind for each in divide([brief])] == ["asked"]
    assert [each.kind for each in divide([long])] == ["thinnable"]


def test_non_finite_counts_are_split_off_and_kept() -> None:
    groups = divide([wish("gradients", "l2", *COUNTS)])
    assert [(group.kind, group.items[0].statistics) for group in groups] == [("kept", COUNTS), ("thinnable", ("l2",))]


def test_a_check_for_non_finite_values_at_every_step_is_all_kept() -> None:
    groups = divide([wish("all", *COUNTS, "value", every=1, source="rule:exploding_tensor")])
    assert [group.kind for group in groups] == ["kept"]


def test_gradients_weights_and_biases_go_together_and_a_rules_own_by_themselves() -> None:
    preset = [wish(each, "l2", source="preset") for each in ("gradients", "weights", "biases")]
    groups = thinnable(wish("weights", "l2", "p5", source="rule:a"), *preset, wish("layers", "l2", source="preset"))
    assert statistics(groups) == [
        (("gradients", "weights", "biases"), {"l2"}, 50),
        (("layers",), {"l2"}, 50),
        (("weights",), {"p5"}, 50),
    ]
    assert [group.sources for group in groups] == [("preset", "rule:a"), ("preset",), ("rule:a",)]


def test_what_an_option_captures_often_enough_is_not_thinned_for_anybody() -> None:
    option = parse_capture("gradients:every=10,statistics=abs_mean,l2")
    rule = wish("gradients", "abs_mean", "std")
    assert statistics(thinnable(rule, option)) == [(("gradients",), {"std"}, 50)]
    rare = parse_capture("gradients:every=100,statistics=abs_mean")
    assert statistics(thinnable(rule, rare)) == [(("gradients",), {"abs_mean", "std"}, 50)]


def test_what_may_be_thinned_itself_covers_nobody_else() -> None:
    """A rule at every step that is thinned to 64 must not take the preset's steps with it."""
    groups = thinnable(wish("gradients", "abs_mean", every=1), wish("gradients", "abs_mean", source="preset"))
    assert statistics(groups) == [(("gradients",), {"abs_mean"}, 50), (("gradients",), {"abs_mean"}, 1)]


def test_modes_are_thinned_each_by_itself() -> None:
    groups = thinnable(wish("layers", "l2", modes=("train", "eval")), wish("layers", "l2", source="preset"))
    assert [(group.modes, group.sources) for group in groups] == [
        (("train",), ("preset", "rule:r")),
        (("eval",), ("rule:r",)),
    ]


def asked(items: Iterable[CaptureItem]) -> set[tuple[object, ...]]:
    return {
        (item.collection, item.regex, what, item.schedule, mode)
        for item in items
        for what in (*item.statistics, *(("raw",) if item.raw else ()))
        for mode in item.modes
    }


@pytest.mark.parametrize("preset", ["light", "standard", "full", "sagemaker"])
def test_nothing_that_a_preset_asks_gets_lost(preset: str) -> None:
    items = preset_items(preset)
    assert asked(item for group in divide(items) for item in group.items) == asked(items)
