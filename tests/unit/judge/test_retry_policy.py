"""How an action wants to be done."""

from __future__ import annotations

import json
from dataclasses import asdict

from leadline.actions.stop_training import StopTraining
from leadline.judge.retry_policy import RetryPolicy


def test_they_are_the_actions_own_and_survive_a_pipe() -> None:
    action = StopTraining(cooldown=60.0, episodes="once", retries=2, backoff=0.5, timeout=9.0, dry_run=True)
    manners = RetryPolicy.of(action)
    assert manners == RetryPolicy(dry_run=True, cooldown=60.0, is_once=True, retries=2, backoff=0.5, timeout=9.0)
    assert RetryPolicy(**json.loads(json.dumps(asdict(manners)))) == manners
