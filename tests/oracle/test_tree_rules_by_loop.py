"""Rules on boosters against plain loops over the same scenario, without windows, views or numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, settings
from judged import Judged, judged_by
from test_training_rules_by_loop import gap
from tree_scenarios import tree_scenarios

from leadline.rules.losses.overfit import Overfit
from leadline.rules.trees.feature_importance_overweight import FeatureImportanceOverweight
from leadline.rules.trees.tree_depth import TreeDepth
from leadline.testing.runs import Capture, Part

PREFIX = "feature_importance/weight/"


def verdict_name(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def by_step(scenario: Sequence[Part]) -> dict[int, list[Capture]]:
    found: dict[int, list[Capture]] = {}
    for part in scenario:
        if isinstance(part, Capture):
            found.setdefault(part.step, []).append(part)
    return found


def overweight(scenario: Sequence[Part], threshold: float, nfeatures: int, start_step: int) -> Judged:
    results = []
    for step, captures in sorted(by_step(scenario).items()):
        shares = []
        mine = [capture for capture in captures if any(name.startswith(PREFIX) for name in capture.values)]
        for capture in mine:
            values = [value["value"] for name, value in capture.values.items() if name.startswith(PREFIX)]
            good = sorted((value for value in values if math.isfinite(value) and value > 0), reverse=True)
            if good:
                shares.append(sum(good[:nfeatures]) / sum(good))
        if mine:
            is_judged = step >= start_step and bool(shares)
            results.append((step, verdict_name(is_judged and max(shares) > threshold, is_judged)))
    return results


def depths(scenario: Sequence[Part], most: int) -> Judged:
    results = []
    for step, captures in sorted(by_step(scenario).items()):
        tables = [capture.values for capture in captures if any(name.startswith("trees/") for name in capture.values)]
        found = []
        for table in tables:
            depth = table.get("trees/Depth", {}).get("max", math.nan)
            node = table.get("trees/Node", {}).get("max", math.nan)
            if math.isfinite(depth):
                found.append(int(depth))
            elif math.isfinite(node):
                found.append(full_levels(node))
        if tables:
            results.append((step, verdict_name(any(value > most for value in found), bool(found))))
    return results


def full_levels(node: float) -> int:
    """Return the depth of a node in a tree with nodes numbered by level: 0, then 1 and 2, then 3 to 6."""
    depth, last = 0, 0
    while last < node:
        depth += 1
        last += 2**depth
    return depth


def overfitting(scenario: Sequence[Part], threshold: float) -> Judged:
    results = []
    history: list[tuple[str, float]] = []
    for step, captures in sorted(by_step(scenario).items()):
        losses = {name: value["value"] for part in captures for name, value in part.values.items() if "logloss" in name}
        if not losses:
            continue
        ratio = None
        for name, mode in (("train-logloss", "train"), ("holdout-logloss", "eval")):
            if math.isfinite(losses[name]):
                history.append((mode, losses[name]))
                ratio = gap(history) if mode == "eval" else None
        results.append((step, verdict_name(ratio is not None and ratio > threshold, ratio is not None)))
    return results


@settings(deadline=None, max_examples=30)
@given(scenario=tree_scenarios())
def test_importances_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    rule = FeatureImportanceOverweight(threshold=0.7, nfeatures=2, start_step=2)
    assert judged_by(rule, scenario) == overweight(scenario, 0.7, 2, 2)


@settings(deadline=None, max_examples=30)
@given(scenario=tree_scenarios())
def test_depths_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    assert judged_by(TreeDepth(), scenario) == depths(scenario, 4)


@settings(deadline=None, max_examples=30)
@given(scenario=tree_scenarios())
def test_losses_by_set_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    assert judged_by(Overfit(ratio_threshold=0.35), scenario) == overfitting(scenario, 0.35)
