"""Capture items of rules inherit the schedules of their collection in their own modes."""

from __future__ import annotations

from leadline.config.presets import merge, preset_items
from leadline.records.plan import CaptureItem, needs_forward_pass


def test_an_evaluation_schedule_is_not_inherited_by_train_steps() -> None:
    needed = CaptureItem("all", statistics=("value", "nan_count"), source="rule:exploding_tensor")
    plan = merge(preset_items("standard"), (), (needed,), root="/tmp")
    every = {
        item.schedule.every
        for item in plan.items
        if needs_forward_pass(item) and "train" in item.modes and item.family is None
    }
    assert every == {50, 500}


def test_an_item_for_all_modes_inherits_the_schedule_of_each_mode() -> None:
    modes = ("train", "eval", "predict")
    needed = CaptureItem("metrics", regex="accuracy", statistics=("value",), modes=modes, source="rule:overfit")
    plan = merge(preset_items("standard"), (), (needed,), root="/tmp")
    schedules = {(item.modes, item.schedule.every) for item in plan.items if item.source == "rule:overfit"}
    assert schedules >= {(("train",), 50), (("eval", "predict"), 1)}
