"""The rules of boosters against plain loops over the same story, written without windows, views or numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, settings
from judged import Judged, judged_by
from test_training_rules_by_loop import gap
from tree_scenarios import tree_stories

from leadline.rules.losses.overfit import Overfit
from leadline.rules.trees.feature_importance_overweight import FeatureImportanceOverweight
from leadline.rules.trees.tree_depth import TreeDepth
from leadline.testing.runs import Capture, Part

PREFIX = "feature_importance/weight/"


def word(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def by_step(story: Sequence[Part]) -> dict[int, list[Capture]]:
    found: dict[int, list[Capture]] = {}
    for part in story:
        if isinstance(part, Capture):
            found.setdefault(part.step, []).append(part)
    return found


def overweight(story: Sequence[Part], threshold: float, nfeatures: int, start_step: int) -> Judged:
    said = []
    for step, captures in sorted(by_step(story).items()):
        shares = []
        mine = [each for each in captures if any(name.startswith(PREFIX) for name in each.values)]
        for each in mine:
            values = [value["value"] for name, value in each.values.items() if name.startswith(PREFIX)]
            good = sorted((each for each in values if math.isfinite(each) and each > 0), reverse=True)
            if good:
                shares.append(sum(good[:nfeatures]) / sum(good))
        if mine:
            is_judged = step >= start_step and bool(shares)
            said.append((step, word(is_judged and max(shares) > threshold, is_judged)))
    return said


def depths(story: Sequence[Part], most: int) -> Judged:
    said = []
    for step, captures in sorted(by_step(story).items()):
        tables = [each.values for each in captures if any(name.startswith("trees/") for name in each.values)]
        found = []
        for table in tables:
            depth = table.get("trees/Depth", {}).get("max", math.nan)
            node = table.get("trees/Node", {}).get("max", math.nan)
            if math.isfinite(depth):
                found.append(int(depth))
            elif math.isfinite(node):
                found.append(full_levels(node))
        if tables:
            said.append((step, word(any(each > most for each in found), bool(found))))
    return said


def full_levels(node: float) -> int:
    """The depth of the node in a tree whose levels are numbered one after the other: 0, then 1 and 2, then 3 to 6."""
    depth, last = 0, 0
    while last < node:
        depth += 1
        last += 2**depth
    return depth


def overfitting(story: Sequence[Part], threshold: float) -> Judged:
    said = []
    history: list[tuple[str, float]] = []
    for step, captures in sorted(by_step(story).items()):
        losses = {name: each["value"] for part in captures for name, each in part.values.items() if "logloss" in name}
        if not losses:
            continue
        ratio = None
        for name, mode in (("train-logloss", "train"), ("holdout-logloss", "eval")):
            if math.isfinite(losses[name]):
                history.append((mode, losses[name]))
                ratio = gap(history) if mode == "eval" else None
        said.append((step, word(ratio is not None and ratio > threshold, ratio is not None)))
    return said


@settings(deadline=None, max_examples=30)
@given(story=tree_stories())
def test_importances_are_judged_as_a_plain_loop_does(story: Sequence[Part]) -> None:
    rule = FeatureImportanceOverweight(threshold=0.7, nfeatures=2, start_step=2)
    assert judged_by(rule, story) == overweight(story, 0.7, 2, 2)


@settings(deadline=None, max_examples=30)
@given(story=tree_stories())
def test_depths_are_judged_as_a_plain_loop_does(story: Sequence[Part]) -> None:
    assert judged_by(TreeDepth(), story) == depths(story, 4)


@settings(deadline=None, max_examples=30)
@given(story=tree_stories())
def test_losses_of_sets_are_compared_as_a_plain_loop_does(story: Sequence[Part]) -> None:
    assert judged_by(Overfit(ratio_threshold=0.35), story) == overfitting(story, 0.35)
