"""Live == afterwards == after a restart == with other segments, for the rules on boosters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from test_replay import judged_in_all_ways
from tree_scenarios import tree_scenarios

from leadline.rules.registry import find_rule
from leadline.rules.rule import Rule
from leadline.testing.runs import Part

RULES: dict[str, Callable[[], Rule]] = {
    "feature_importance_overweight": partial(find_rule("feature_importance_overweight"), start_step=3, nfeatures=1),
    "gain": partial(find_rule("feature_importance_overweight"), tensor_regex=("importance/gain",), threshold=0.5),
    "tree_depth": find_rule("tree_depth"),
    "create_xgboost_report": find_rule("create_xgboost_report"),
    "overfit": find_rule("overfit"),
    "overtraining": partial(find_rule("overtraining"), patience_train=2, patience_validation=3),
    "loss_not_decreasing": partial(find_rule("loss_not_decreasing"), num_steps=2),
    "class_imbalance": partial(find_rule("class_imbalance"), samples=20),
    "confusion": find_rule("confusion"),
    "unchanged_tensor": partial(find_rule("unchanged_tensor"), collection_names=("feature_importance",)),
    "all_zero": partial(find_rule("all_zero"), collection_names=("feature_importance",), threshold=100.0),
}


@settings(deadline=None, max_examples=25)
@given(
    scenario=tree_scenarios(),
    rows=st.integers(1, 5),
    batches=st.integers(1, 3),
    look=st.integers(1, 6),
    restart=st.integers(0, 20),
)
def test_verdicts_are_the_same_live_afterwards_restarted_and_with_other_segments(
    scenario: Sequence[Part], rows: int, batches: int, look: int, restart: int
) -> None:
    judged_in_all_ways(scenario, RULES, rows, batches, look, restart)
