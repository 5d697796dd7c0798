"""Presets, and the schedules that items of rules inherit."""

from __future__ import annotations

import pytest

from leadline.config.capture import parse_capture
from leadline.config.presets import merge, preset_items
from leadline.errors import UnknownNameError
from leadline.records.plan import CaptureItem, Schedule


def front_loaded(every: int) -> Schedule:
    return Schedule(every=every, steps=(0, 1, 2, 3, 4, 5, 10, 20, 50, 100))


@pytest.mark.parametrize(("preset", "losses", "tensors"), [("light", 1, 100), ("standard", 1, 50), ("full", 1, 10)])
def test_intervals(preset: str, losses: int, tensors: int) -> None:
    items = preset_items(preset)
    assert {item.schedule.every for item in items if item.collection == "losses"} == {losses}
    assert {item.schedule.every for item in items if item.collection == "gradients" and not item.raw} == {tensors}


def test_only_full_stores_raw_tensors() -> None:
    raw = {
        preset: {item.schedule.every for item in preset_items(preset) if item.raw} for preset in ("light", "standard")
    }
    assert raw == {"light": set(), "standard": set()}
    assert {item.schedule.every for item in preset_items("full") if item.raw} == {500}


def test_sagemaker_captures_scalars_every_500_and_nothing_else() -> None:
    items = [item for item in preset_items("sagemaker") if item.family is None]
    assert {(item.schedule.every, item.statistics) for item in items} == {(500, ("value",))}


@pytest.mark.parametrize("preset", ["light", "standard", "full", "sagemaker"])
def test_boosters_are_captured_every_five_rounds(preset: str) -> None:
    found = {item.collection: item.schedule.every for item in preset_items(preset) if item.family == "trees"}
    assert found.items() >= {("feature_importance", 5), ("labels", 5), ("predictions", 5)}
    assert not any(item.raw for item in preset_items(preset) if item.family == "trees")


def test_labels_for_a_rule_are_captured_every_five_rounds_of_boosters_and_by_default_elsewhere() -> None:
    needed = CaptureItem("labels", statistics=("class_counts",), source="rule:r")
    plan = merge(preset_items("light"), (), [needed], root="/tmp")
    found = {(item.family, item.schedule.every) for item in plan.items if item.source == "rule:r"}
    assert found == {("trees", 5), (None, 500)}


@pytest.mark.parametrize(("collection", "every"), [("trees", 5), ("average_shap", 5), ("feature_importance", 5)])
def test_booster_collections_for_a_rule_are_captured_every_five_rounds(collection: str, every: int) -> None:
    plan = merge(preset_items("standard"), (), [CaptureItem(collection, source="rule:r")], root="/tmp")
    (found,) = [item for item in plan.items if item.source == "rule:r"]
    assert found.schedule == front_loaded(every)


def test_scalars_of_the_script_are_captured_without_a_preset() -> None:
    assert {item.collection for item in preset_items(None)} == {"scalars", "metrics"}


def test_unknown_preset() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'standard'"):
        preset_items("standrad")


def rule_schedules(needed: CaptureItem, *options: str) -> dict[str | None, Schedule]:
    plan = merge(preset_items("standard"), [parse_capture(each) for each in options], [needed], root="/tmp")
    return {item.collection: item.schedule for item in plan.items if item.source == "rule:r"}


def test_an_item_inherits_the_schedule_of_its_collection() -> None:
    needed = CaptureItem("gradients", statistics=("abs_mean",), source="rule:r")
    assert rule_schedules(needed) == {"gradients": front_loaded(50)}


def test_an_item_for_all_inherits_the_schedule_of_each_collection() -> None:
    needed = CaptureItem("all", statistics=("nan_count",), source="rule:r")
    found = rule_schedules(needed)
    assert found["losses"] == Schedule(every=1)
    assert found["gradients"] == found["weights"] == found["biases"] == front_loaded(50)


def test_an_item_for_what_an_option_captures_inherits_the_schedule_of_the_option() -> None:
    plan = merge((), [parse_capture("gradients:every=7")], [CaptureItem("gradients", source="rule:r")], root="/tmp")
    assert [item.schedule for item in plan.items if item.source == "rule:r"] == [Schedule(every=7)]


def test_an_item_with_a_schedule_keeps_it() -> None:
    needed = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=7), source="rule:r")
    assert rule_schedules(needed) == {"gradients": Schedule(every=7)}


def test_the_disk_is_bounded_from_the_start() -> None:
    plan = merge(preset_items("standard"), (), (), root="/nowhere/yet")
    assert plan.disk_bytes is not None
    assert plan.disk_bytes > 0


@pytest.mark.parametrize(("preset", "every"), [("standard", 500), ("full", 100)])
def test_module_outputs_for_a_rule_are_captured_with_the_activations_of_the_preset(preset: str, every: int) -> None:
    needed = CaptureItem("relu_output", statistics=("unit_activity",), source="rule:dead_relu")
    plan = merge(preset_items(preset), (), [needed], root=".")
    (found,) = [item for item in plan.items if item.source == "rule:dead_relu"]
    assert (found.collection, found.schedule) == ("relu_output", front_loaded(every))
