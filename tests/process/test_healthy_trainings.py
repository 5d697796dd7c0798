"""Ten kinds of healthy trainings: no default rule fires."""

from __future__ import annotations

from pathlib import Path

import pytest
from false_alarms import KINDS, SEEDS, judge_all, table, train

from leadline.rules.registry import DEFAULT

pytestmark = pytest.mark.slow

GROUPS = [KINDS[at : at + 2] for at in range(0, len(KINDS), 2)]
UNDECIDED = {
    "stalled_training": set(KINDS),  # evaluated once a second; a training may be over before
    "input_bound": set(KINDS),  # as above
    "straggler": set(KINDS),  # one process each
    "memory_growth": set(KINDS),  # no agent samples their memory
    "gpu_throttling": set(KINDS),
    "probabilities_as_logits": {"vae", "policy_gradient", "regression"},
}
"""Kinds of trainings on which a rule may be undecided, because its data does not exist."""


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
    for run, rules in told.items():
        for name in silent:
            may = run.rpartition("-")[0] in UNDECIDED.get(name, ())
            assert rules[name].verdict == "clear" or may, f"{run}: {name}: {rules[name].verdict}: {rules[name].why}"
