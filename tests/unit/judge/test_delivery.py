"""Deliveries: when the next attempt follows, and which notifications are suppressed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.judge.delivery import Delivery, RateLimit, RetryPolicy
from leadline.records.notification import Notification

SECOND_NS = 1_000_000_000
POLICY = RetryPolicy(dry_run=False, cooldown=0.0, is_once=False, retries=8, backoff=1.0, timeout=30.0)


def finding(step: int, *, rule: str = "r", seconds: float = 0.0) -> Notification:
    time_ns = round(seconds * SECOND_NS)
    return Notification(f"{rule}/opened/{step}", "finding", "run", "/run", "IssuesFound", time_ns, rule=rule, step=step)


def closing(step: int, rule: str = "r") -> Notification:
    return Notification(f"{rule}/closed/{step}", "closed", "run", "/run", "IssuesFound", 0, rule=rule, step=step)


def test_pauses_double_up_to_a_minute_and_end() -> None:
    delivery, waits = Delivery(finding(7)), []
    for _ in range(8):
        delivery.attempts += 1
        assert delivery.fail(POLICY, 100.0, "no answer")
        waits.append(delivery.not_before - 100.0)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    delivery.attempts += 1
    assert not delivery.fail(POLICY, 100.0, "no answer")
    assert delivery.failure == "failed after 9 attempts: no answer"


def test_an_action_without_retries_fails_at_once() -> None:
    delivery = Delivery(finding(7), attempts=1)
    assert not delivery.fail(replace(POLICY, retries=0), 0.0, "no answer")
    assert delivery.failure == "failed: no answer"


@pytest.mark.parametrize(("asked", "wait"), [(None, 1.0), (0.5, 1.0), (7.0, 7.0), (3600.0, 60.0)])
def test_the_target_may_ask_for_more_time(asked: float | None, wait: float) -> None:
    delivery = Delivery(finding(7), attempts=1)
    delivery.fail(POLICY, 0.0, "busy", asked)
    assert delivery.not_before == wait


def test_every_finding_is_delivered_by_default() -> None:
    limit = RateLimit()
    limit.record_delivered(finding(7))
    assert limit.reason_to_skip(finding(8), POLICY) == ""


def test_once_is_once_for_each_rule() -> None:
    limit, once = RateLimit(), replace(POLICY, is_once=True)
    assert limit.reason_to_skip(finding(7), once) == ""
    limit.record_delivered(finding(7))
    assert limit.reason_to_skip(finding(8), once) == "only the first finding of a rule is delivered"
    assert limit.reason_to_skip(finding(8, rule="other"), once) == ""


def test_a_cool_down_uses_the_time_of_the_run_and_ends_exactly() -> None:
    limit, cool = RateLimit(), replace(POLICY, cooldown=60.0)
    limit.record_delivered(finding(7, seconds=100.0))
    assert limit.reason_to_skip(finding(8, seconds=159.9), cool) == "within the cool-down of 60 s"
    assert limit.reason_to_skip(finding(8, seconds=160.0), cool) == ""
    assert limit.reason_to_skip(finding(8, rule="other", seconds=101.0), cool) == ""


def test_a_suppressed_finding_closes_silently_and_statuses_are_never_suppressed() -> None:
    limit, once = RateLimit(), replace(POLICY, is_once=True)
    limit.record_delivered(finding(7))
    limit.record_skipped(finding(8))
    assert limit.reason_to_skip(closing(7), once) == ""
    assert limit.reason_to_skip(closing(8), once) == "its opening was not delivered"
    status = Notification("r/status/Error/none", "rule_status", "run", "/run", "Error", 0, rule="r")
    assert limit.reason_to_skip(status, once) == ""
