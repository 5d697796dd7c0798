"""The repeater: sends again while nothing comes, never twice at once, and ends."""

from __future__ import annotations

import threading

import pytest

from leadline.actions.action import RetryLaterError
from leadline.actions.metrics.periodic_publisher import PeriodicPublisher

PATIENCE_SECONDS = 60.0


class Outlet:
    def __init__(self, *, is_pushed: bool = True, fails: bool = False) -> None:
        self.is_pushed, self.fails = is_pushed, fails
        self.count = 0
        self.is_closed = False
        self.has_come_often = threading.Event()

    def publish(self) -> str:
        self.count += 1
        if self.count >= 3:
            self.has_come_often.set()
        if self.fails:
            raise RetryLaterError("the network is away")
        return "sent"

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_pushed_is_sent_again_also_after_a_failure(fails: bool) -> None:
    outlet = Outlet(fails=fails)
    repeater = PeriodicPublisher(outlet, 0.001, PATIENCE_SECONDS)
    assert outlet.has_come_often.wait(PATIENCE_SECONDS)
    repeater.close()
    sent = outlet.count
    assert outlet.is_closed
    assert not any(each.name == "leadline-metrics" for each in threading.enumerate())
    assert outlet.count == sent


def test_what_is_served_is_not() -> None:
    outlet = Outlet(is_pushed=False)
    repeater = PeriodicPublisher(outlet, 0.001, PATIENCE_SECONDS)
    assert not any(each.name == "leadline-metrics" for each in threading.enumerate())
    assert repeater.publish() == "sent"
    repeater.close()
    assert (outlet.count, outlet.is_closed) == (1, True)


def test_a_failure_is_told_to_who_asked() -> None:
    repeater = PeriodicPublisher(Outlet(fails=True), PATIENCE_SECONDS, PATIENCE_SECONDS)
    with pytest.raises(RetryLaterError, match="the network is away"):
        repeater.publish()
    repeater.close()


def test_one_that_hangs_keeps_nobody_from_ending() -> None:
    is_under_way, may_end = threading.Event(), threading.Event()

    class Hanging(Outlet):
        def publish(self) -> str:
            is_under_way.set()
            assert may_end.wait(PATIENCE_SECONDS)
            return "sent"

    outlet = Hanging()
    repeater = PeriodicPublisher(outlet, 0.001, 0.05)
    assert is_under_way.wait(PATIENCE_SECONDS)
    repeater.close()
    assert outlet.is_closed
    may_end.set()
    repeater._thread.join(PATIENCE_SECONDS)
