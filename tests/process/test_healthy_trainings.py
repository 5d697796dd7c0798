"""Ten kinds of healthy trainings: no default rule fires."""

from __future__ import annotations

from pathlib import Path

import pytest
from false_alarms import KINDS, SEEDS, decided_table, judge_all, table, train, train_briefly

from leadline.rules.registry import DEFAULT

pytestmark = pytest.mark.slow

GROUPS = [KINDS[at : at + 2] for at in range(0, len(KINDS), 2)]
NOT_CLEAR = {
    "straggler": ("not_applicable", set(KINDS)),
    "replica_divergence": ("not_applicable", set(KINDS)),
    "duplicate_batches": ("not_applicable", set(KINDS)),
    "gpu_throttling": ("undecided", set(KINDS)),  # no agent samples the machine
    "no_split": ("not_applicable", set(KINDS)),
    "broken_metric": ("not_applicable", set(KINDS)),
    "ignored_labels": ("not_applicable", {"gan", "policy_gradient", "regression", "vae"}),  # no loss of class indices
    "dead_groups": ("not_applicable", set(KINDS)),  # they log no rewards
    "entropy_collapse": ("not_applicable", set(KINDS)),
    "rising_entropy": ("not_applicable", set(KINDS)),
    "reward_fall": ("not_applicable", set(KINDS)),
    "truncated_completions": ("not_applicable", set(KINDS)),
    "kl_divergence": ("not_applicable", set(KINDS)),
    "policy_mismatch": ("not_applicable", set(KINDS)),
    "rising_validation_loss": ("undecided", set(KINDS)),  # they have no validation, or few evaluations
    "generalization_gap": ("undecided", set(KINDS)),
    "shared_samples": ("undecided", set(KINDS) - {"mlp", "cnn", "transformer"}),  # these are evaluated
    "validation_mismatch": ("undecided", set(KINDS) - {"mlp", "cnn", "transformer"}),
    "unscaled_input": ("not_applicable", {"rnn", "transformer"}),  # they are given token numbers
    "diverging_loss": ("not_applicable", {"gan", "vae", "policy_gradient"}),  # guessing has no loss there
    "sorted_batches": ("not_applicable", {"vae", "policy_gradient", "regression"}),  # their labels are no classes
    "eval_in_train_mode": ("not_applicable", {"rnn", "gan", "vae", "policy_gradient", "regression", "amp"}),
    "broken_averages": ("not_applicable", set(KINDS) - {"cnn", "fine_tuning"}),  # they have no batch normalization
    "recompilation": ("not_applicable", set(KINDS)),  # they compile nothing
    "resume_changed": ("not_applicable", set(KINDS)),
}
"""The verdict of rules that are not clear, and the kinds of trainings where."""
OF_THE_LOAD = frozenset({"input_bound"})
"""Rules on times, which a busy machine may leave undecided."""


@pytest.mark.parametrize("kinds", GROUPS, ids="-".join)
def test_a_healthy_training_raises_no_alarm(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    print(train(kinds, SEEDS, tmp_path))
    told = judge_all(tmp_path)
    assert len(told) == len(kinds) * len(SEEDS)
    print(table(told))
    silent = {*DEFAULT}
    alarms = {
        (run, name): rule.findings for run, rules in told.items() for name, rule in rules.items() if name in silent
    }
    assert {key: found for key, found in alarms.items() if found} == {}
    errors = {
        (run, name): rule.why for run, rules in told.items() for name, rule in rules.items() if rule.verdict == "error"
    }
    assert errors == {}
    unexpected = {}
    for run, rules in told.items():
        for name in silent:
            verdict, where = NOT_CLEAR.get(name, ("clear", set(KINDS)))
            expected = verdict if run.rpartition("-")[0] in where else "clear"
            allowed = {expected, "undecided"} if name in OF_THE_LOAD else {expected}
            if rules[name].verdict not in allowed:
                unexpected[run, name] = (rules[name].verdict, rules[name].why)
    assert unexpected == {}


def test_short_trainings_with_the_default_budget_raise_no_alarm(tmp_path: Path) -> None:
    train_briefly([100], [1], [0], tmp_path)
    told = judge_all(tmp_path)
    print(decided_table(told))
    assert len(told) == 4
    verdicts = {(run, name): rule for run, rules in told.items() for name, rule in rules.items()}
    assert {key: rule for key, rule in verdicts.items() if rule.verdict in ("fired", "error")} == {}
