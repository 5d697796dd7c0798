"""Live == afterwards == after a restart == with other segments, for the diagnostic rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from rule_scenarios import captured, diagnostic_scenarios
from test_replay import judged_in_all_ways

from leadline.rules.registry import find_rule
from leadline.rules.rule import Rule
from leadline.testing.runs import Part

RULES: dict[str, Callable[[], Rule]] = {
    "closing_remarks": find_rule("closing_remarks"),
    "nonfinite_origin": find_rule("nonfinite_origin"),
    "exploding_gradient": partial(find_rule("exploding_gradient"), factor=5.0, window=4, patience=1, warmup=2),
    "broken_metric": find_rule("broken_metric"),
    "dead_groups": find_rule("dead_groups"),
    "entropy_collapse": find_rule("entropy_collapse"),
    "rising_entropy": find_rule("rising_entropy"),
    "reward_fall": find_rule("reward_fall"),
    "truncated_completions": find_rule("truncated_completions"),
    "kl_divergence": find_rule("kl_divergence"),
    "policy_mismatch": find_rule("policy_mismatch"),
    "loss_spike": partial(find_rule("loss_spike"), k=2.0, window=3, patience=2),
    "diverging_loss": partial(find_rule("diverging_loss"), least=40),
    "loss_at_start": partial(find_rule("loss_at_start"), factor=1.5),
    "loss_input": find_rule("loss_input"),
    "ignored_labels": partial(find_rule("ignored_labels"), share=0.5),
    "consecutive_linear": find_rule("consecutive_linear"),
    "identical_units": find_rule("identical_units"),
    "sorted_batches": partial(find_rule("sorted_batches"), batches=2),
    "no_gradient": partial(find_rule("no_gradient"), patience=2),
    "no_learning": partial(find_rule("no_learning"), steps=4),
    "lost_progress": find_rule("lost_progress"),
    "missing_zero_grad": find_rule("missing_zero_grad"),
    "unused_parameter": partial(find_rule("unused_parameter"), steps=5),
    "output_collapse": partial(find_rule("output_collapse"), patience=2),
    "unscaled_input": find_rule("unscaled_input"),
    "weight_saturation": find_rule("weight_saturation"),
    "eval_in_train_mode": find_rule("eval_in_train_mode"),
    "recompilation": partial(find_rule("recompilation"), recompilations=2),
    "resume_changed": find_rule("resume_changed"),
    "broken_averages": partial(find_rule("broken_averages"), patience=2),
    "learning_rate": partial(find_rule("learning_rate"), patience=2),
    "metric_not_improving": partial(find_rule("metric_not_improving"), from_start=True),
    "skipped_steps": partial(find_rule("skipped_steps"), window=5, share=0.3),
    "replica_divergence": find_rule("replica_divergence"),
}


@settings(deadline=None, max_examples=25)
@given(
    scenario=diagnostic_scenarios(),
    rows=st.integers(1, 5),
    batches=st.integers(1, 3),
    look=st.integers(1, 6),
    restart=st.integers(0, 20),
)
def test_verdicts_are_the_same_live_afterwards_restarted_and_with_other_segments(
    scenario: Sequence[Part], rows: int, batches: int, look: int, restart: int
) -> None:
    judged_in_all_ways(scenario, RULES, rows, batches, look, restart)


def test_a_metric_over_many_steps_gets_the_same_verdicts() -> None:
    values = [0.5 + 0.05 * (step * 7 % 5) + 0.01 * max(step - 350, 0) for step in range(400)]
    scenario = [captured(step, {"accuracy": {"value": value}}) for step, value in enumerate(values)]
    once = judged_in_all_ways(scenario, RULES, rows=3, batches=2, look=7, restart=90)
    assert once.states["metric_not_improving"]["verdict"] == "fired"
