"""The retry policy of an action."""

from __future__ import annotations

import json
from dataclasses import asdict

from leadline.actions.stop_training import StopTraining
from leadline.judge.delivery import RetryPolicy


def test_a_policy_has_the_actions_parameters_and_survives_a_pipe() -> None:
    action = StopTraining(cooldown=60.0, episodes="once", retries=2, backoff=0.5, timeout=9.0, dry_run=True)
    policy = RetryPolicy.of(action)
    assert policy == RetryPolicy(dry_run=True, cooldown=60.0, is_once=True, retries=2, backoff=0.5, timeout=9.0)
    assert RetryPolicy(**json.loads(json.dumps(asdict(policy)))) == policy
