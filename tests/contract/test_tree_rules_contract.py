"""Contract tests of the rules on boosters."""

from __future__ import annotations

from typing import ClassVar

from tree_scenarios import answers, importances, loss, splits, trees

from leadline.rules.trees.create_xgboost_report import CreateXgboostReport
from leadline.rules.trees.feature_importance_overweight import FeatureImportanceOverweight
from leadline.rules.trees.no_split import NoSplit
from leadline.rules.trees.tree_depth import TreeDepth
from leadline.testing.contracts import RuleContract, TableRuleContract


class TestFeatureImportanceOverweight(RuleContract):
    rule = FeatureImportanceOverweight
    fires_on = (importances(10, {"id": 0.7, "a": 0.1, "b": 0.1, "c": 0.1}),)
    silent_on = (importances(10, {"id": 0.5, "a": 0.25, "b": 0.0, "c": 0.25, "d": 0.25}),)


class TestNoSplit(RuleContract):
    rule = NoSplit
    parameters: ClassVar = {"rounds": 2}
    fires_on = tuple(splits(step, 0.0, 0.0) for step in range(2))
    silent_on = (splits(0, 0.0, 0.0), splits(1, 0.0, 1.0))


class TestTreeDepth(RuleContract):
    rule = TreeDepth
    fires_on = (trees(0, depth=4), trees(1, depth=5))
    silent_on = (trees(0, depth=4), trees(1, node=30))


class TestCreateXgboostReport(TableRuleContract):
    rule = CreateXgboostReport
    fires_on = (loss(0, train=1.0), *answers(5, [0, 1], [0.1, 0.8]))
    silent_on: ClassVar = (loss(0, train=1.0),)
