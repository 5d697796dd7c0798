"""Deliveries: when the next try comes, and what is held back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.judge.delivery import Delivery, RateLimit
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.notification import Notification

SECOND_NS = 1_000_000_000
MANNERS = RetryPolicy(dry_run=False, cooldown=0.0, is_once=False, retries=8, backoff=1.0, timeout=30.0)


def finding(step: int, *, rule: str = "r", seconds: float = 0.0) -> Notification:
    time_ns = round(seconds * SECOND_NS)
    return Notification(f"{rule}/opened/{step}", "finding", "run", "/run", "IssuesFound", time_ns, rule=rule, step=step)


def closing(step: int, rule: str = "r") -> Notification:
    return Notification(f"{rule}/closed/{step}", "closed", "run", "/run", "IssuesFound", 0, rule=rule, step=step)


def test_waits_double_up_to_a_minute_and_come_to_an_end() -> None:
    delivery, waits = Delivery(finding(7)), []
    for _ in range(8):
        delivery.attempts += 1
        assert delivery.fail(MANNERS, 100.0, "no answer")
        waits.append(delivery.not_before - 100.0)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    delivery.attempts += 1
    assert not delivery.fail(MANNERS, 100.0, "no answer")
    assert delivery.failure == "failed after 9 tries: no answer"


def test_an_action_that_is_not_tried_again_fails_at_once() -> None:
    delivery = Delivery(finding(7), attempts=1)
    assert not delivery.fail(replace(MANNERS, retries=0), 0.0, "no answer")
    assert delivery.failure == "failed: no answer"


@pytest.mark.parametrize(("asked", "wait"), [(None, 1.0), (0.5, 1.0), (7.0, 7.0), (3600.0, 60.0)])
def test_the_other_side_may_ask_for_more_time(asked: float | None, wait: float) -> None:
    delivery = Delivery(finding(7), attempts=1)
    delivery.fail(MANNERS, 0.0, "busy", asked)
    assert delivery.not_before == wait


def test_every_finding_is_told_unless_asked_otherwise() -> None:
    restraint = RateLimit()
    restraint.has_done(finding(7))
    assert restraint.why_not(finding(8), MANNERS) == ""


def test_once_is_once_for_each_rule() -> None:
    restraint, once = RateLimit(), replace(MANNERS, is_once=True)
    assert restraint.why_not(finding(7), once) == ""
    restraint.has_done(finding(7))
    assert restraint.why_not(finding(8), once) == "only the first of a rule is told"
    assert restraint.why_not(finding(8, rule="other"), once) == ""


def test_a_cool_down_is_counted_in_the_runs_own_time_and_ends_exactly() -> None:
    restraint, cool = RateLimit(), replace(MANNERS, cooldown=60.0)
    restraint.has_done(finding(7, seconds=100.0))
    assert restraint.why_not(finding(8, seconds=159.9), cool) == "within its cool-down of 60 s"
    assert restraint.why_not(finding(8, seconds=160.0), cool) == ""
    assert restraint.why_not(finding(8, rule="other", seconds=101.0), cool) == ""


def test_a_finding_that_was_not_told_closes_unsaid_and_statuses_are_never_held_back() -> None:
    restraint, once = RateLimit(), replace(MANNERS, is_once=True)
    restraint.has_done(finding(7))
    restraint.has_withheld(finding(8))
    assert restraint.why_not(closing(7), once) == ""
    assert restraint.why_not(closing(8), once) == "its opening was not told"
    status = Notification("r/status/Error/none", "rule_status", "run", "/run", "Error", 0, rule="r")
    assert restraint.why_not(status, once) == ""
