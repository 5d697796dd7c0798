"""The periodic publisher: repeats unchanged values, never publishes twice at once, and ends."""

from __future__ import annotations

import threading

import pytest

from leadline.actions.action import RetryLaterError
from leadline.actions.publish_metric import PeriodicPublisher

PATIENCE_SECONDS = 60.0


class FakeExporter:
    def __init__(self, *, is_pushed: bool = True, fails: bool = False) -> None:
        self.is_pushed, self.fails = is_pushed, fails
        self.count = 0
        self.is_closed = False
        self.was_published_often = threading.Event()

    def publish(self) -> str:
        self.count += 1
        if self.count >= 3:
            self.was_published_often.set()
        if self.fails:
            raise RetryLaterError("the network is away")
        return "sent"

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("fails", [False, True])
def test_pushed_values_are_sent_again_also_after_a_failure(fails: bool) -> None:
    exporter = FakeExporter(fails=fails)
    publisher = PeriodicPublisher(exporter, 0.001, PATIENCE_SECONDS)
    assert exporter.was_published_often.wait(PATIENCE_SECONDS)
    publisher.close()
    sent = exporter.count
    assert exporter.is_closed
    assert not any(thread.name == "leadline-metrics" for thread in threading.enumerate())
    assert exporter.count == sent


def test_served_values_are_not_sent() -> None:
    exporter = FakeExporter(is_pushed=False)
    publisher = PeriodicPublisher(exporter, 0.001, PATIENCE_SECONDS)
    assert not any(thread.name == "leadline-metrics" for thread in threading.enumerate())
    assert publisher.publish() == "sent"
    publisher.close()
    assert (exporter.count, exporter.is_closed) == (1, True)


def test_a_failure_is_raised_to_the_caller() -> None:
    publisher = PeriodicPublisher(FakeExporter(fails=True), PATIENCE_SECONDS, PATIENCE_SECONDS)
    with pytest.raises(RetryLaterError, match="the network is away"):
        publisher.publish()
    publisher.close()


def test_an_exporter_that_hangs_does_not_delay_the_end() -> None:
    is_under_way, may_end = threading.Event(), threading.Event()

    class Hanging(FakeExporter):
        def publish(self) -> str:
            is_under_way.set()
            assert may_end.wait(PATIENCE_SECONDS)
            return "sent"

    exporter = Hanging()
    publisher = PeriodicPublisher(exporter, 0.001, 0.05)
    assert is_under_way.wait(PATIENCE_SECONDS)
    publisher.close()
    assert exporter.is_closed
    may_end.set()
    publisher._thread.join(PATIENCE_SECONDS)
