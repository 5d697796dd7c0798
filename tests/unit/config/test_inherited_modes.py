"""A rule's wish takes the schedules that its collection has in the wish's own modes."""

from __future__ import annotations

from leadline.config.presets import merge, preset_items
from leadline.records.plan import CaptureItem, is_of_forward


def test_what_is_cheap_in_an_evaluation_is_not_asked_of_every_train_step() -> None:
    wish = CaptureItem("all", statistics=("value", "nan_count"), source="rule:exploding_tensor")
    plan = merge(preset_items("standard"), (), (wish,), root="/tmp")
    every = {
        item.schedule.every
        for item in plan.items
        if is_of_forward(item) and "train" in item.modes and item.family is None
    }
    assert every == {50, 500}


def test_a_wish_for_all_modes_keeps_each_modes_own_schedule() -> None:
    modes = ("train", "eval", "predict")
    wish = CaptureItem("metrics", regex="accuracy", statistics=("value",), modes=modes, source="rule:overfit")
    plan = merge(preset_items("standard"), (), (wish,), root="/tmp")
    asked = {(item.modes, item.schedule.every) for item in plan.items if item.source == "rule:overfit"}
    assert asked >= {(("train",), 50), (("eval", "predict"), 1)}
