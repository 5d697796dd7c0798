"""create_xgboost_report: needs the data of the report, and never fires."""

from __future__ import annotations

from tree_scenarios import answers, loss

from leadline.judge.rule_plan import plan, resolve_rules
from leadline.records.manifest import RuleSpec
from leadline.records.verdict import Clear
from leadline.rules.trees.create_xgboost_report import CreateXgboostReport
from leadline.testing.windows import verdicts


def test_it_needs_raw_labels_and_predictions_every_five_rounds() -> None:
    items = plan(resolve_rules([RuleSpec("CreateXgboostReport", "CreateXgboostReport")]), ())
    assert {each.collection: (each.raw, each.schedule.every) for each in items} == {
        "losses": (False, 5),
        "metrics": (False, 5),
        "feature_importance": (False, 5),
        "hyperparameters": (False, 5),
        "labels": (True, 5),
        "predictions": (True, 5),
    }


def test_its_product_counts_the_rounds_and_predictions() -> None:
    parts = [loss(0, train=1.0), *answers(5, [0, 1], [0.1, 0.9]), loss(6, train=0.5)]
    assert [verdict for _, verdict in verdicts(CreateXgboostReport(), parts)] == [
        Clear({"rounds": 1}),
        Clear({"rounds": 6, "with_predictions": 1}),
        Clear({"rounds": 7, "with_predictions": 1}),
    ]
