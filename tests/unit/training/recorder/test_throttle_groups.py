"""Division of capture items into throttle groups."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leadline.config.capture import parse_capture
from leadline.config.presets import preset_items
from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.throttle_groups import ThrottleGroup, divide

COUNTS = ("nan_count", "nonfinite_count")


def make_item(
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


def throttled(*items: CaptureItem) -> list[ThrottleGroup]:
    return [group for group in divide(items) if group.kind == "throttled"]


def statistics(groups: list[ThrottleGroup]) -> list[tuple[tuple[str | None, ...], set[str], int | None]]:
    return [
        (group.collections, {name for item in group.items for name in item.statistics}, group.schedule.every)
        for group in groups
    ]


def test_losses_scalars_and_items_of_options_are_never_throttled() -> None:
    items = [
        make_item("losses", "value", every=1),
        make_item("metrics", "value"),
        make_item("scalars", "value"),
        parse_capture("gradients:every=1,raw=true"),
        parse_capture("relu_output:every=1"),
    ]
    assert throttled(*items) == []
    assert {id(item) for group in divide(items) for item in group.items} == set(map(id, items))


def test_items_for_the_first_steps_only_are_never_throttled() -> None:
    brief = CaptureItem("gradients", statistics=("p5", "p95"), schedule=Schedule(every=1, end=10), source="rule:a")
    long = CaptureItem("gradients", statistics=("p5", "p95"), schedule=Schedule(every=1, end=10_000), source="rule:b")
    assert [group.kind for group in divide([brief])] == ["asked"]
    assert [group.kind for group in divide([long])] == ["throttled"]


def test_non_finite_counts_are_split_off_and_kept() -> None:
    groups = divide([make_item("gradients", "l2", *COUNTS)])
    assert [(group.kind, group.items[0].statistics) for group in groups] == [("kept", COUNTS), ("throttled", ("l2",))]


def test_a_non_finite_check_at_every_step_is_kept_completely() -> None:
    groups = divide([make_item("all", *COUNTS, "value", every=1, source="rule:exploding_tensor")])
    assert [group.kind for group in groups] == ["kept"]


def test_gradients_weights_and_biases_share_a_group_and_each_rule_has_its_own() -> None:
    preset = [make_item(collection, "l2", source="preset") for collection in ("gradients", "weights", "biases")]
    groups = throttled(
        make_item("weights", "l2", "p5", source="rule:a"), *preset, make_item("layers", "l2", source="preset")
    )
    assert statistics(groups) == [
        (("gradients", "weights", "biases"), {"l2"}, 50),
        (("layers",), {"l2"}, 50),
        (("weights",), {"p5"}, 50),
    ]
    assert [group.sources for group in groups] == [("preset", "rule:a"), ("preset",), ("rule:a",)]


def test_items_covered_by_an_option_are_not_throttled() -> None:
    option = parse_capture("gradients:every=10,statistics=abs_mean,l2")
    rule = make_item("gradients", "abs_mean", "std")
    assert statistics(throttled(rule, option)) == [(("gradients",), {"std"}, 50)]
    rare = parse_capture("gradients:every=100,statistics=abs_mean")
    assert statistics(throttled(rule, rare)) == [(("gradients",), {"abs_mean", "std"}, 50)]


def test_a_throttled_item_covers_no_other() -> None:
    """A rule at every step that is throttled to 64 must not affect the steps of the preset."""
    groups = throttled(make_item("gradients", "abs_mean", every=1), make_item("gradients", "abs_mean", source="preset"))
    assert statistics(groups) == [(("gradients",), {"abs_mean"}, 50), (("gradients",), {"abs_mean"}, 1)]


def test_modes_are_throttled_separately() -> None:
    groups = throttled(make_item("layers", "l2", modes=("train", "eval")), make_item("layers", "l2", source="preset"))
    assert [(group.modes, group.sources) for group in groups] == [
        (("train",), ("preset", "rule:r")),
        (("eval",), ("rule:r",)),
    ]


def expanded(items: Iterable[CaptureItem]) -> set[tuple[object, ...]]:
    return {
        (item.collection, item.regex, what, item.schedule, mode)
        for item in items
        for what in (*item.statistics, *(("raw",) if item.raw else ()))
        for mode in item.modes
    }


@pytest.mark.parametrize("preset", ["light", "standard", "full", "sagemaker"])
def test_no_item_of_a_preset_is_lost(preset: str) -> None:
    items = preset_items(preset)
    assert expanded(item for group in divide(items) for item in group.items) == expanded(items)
