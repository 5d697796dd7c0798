"""Signals that ask a job to end: those that it survives do not count."""

from __future__ import annotations

import signal
import time

from leadline.agent.shutdown import EndSignals
from leadline.records.documents import WorkerDocument


def worker(step: int, seconds: float) -> dict[str, WorkerDocument]:
    """A worker as it reports itself some seconds from now."""
    return {"rank0-1": WorkerDocument("rank0-1", step=step, time_ns=time.time_ns() + round(seconds * 1e9))}


def survived(*reports: dict[str, WorkerDocument]) -> bool:
    signals = EndSignals()
    signals.record(signal.SIGTERM, is_from_terminal=False)
    for report in reports:
        signals.follow(report)
    return signals.were_survived(reports[-1], 0)


def test_a_job_that_trains_on_has_survived() -> None:
    assert survived(worker(20, 1), worker(25, 2), worker(30, 3))


def test_a_job_that_ends_after_a_few_steps_has_not() -> None:
    assert not survived(worker(20, 1), worker(29, 2))


def test_steps_before_the_signal_do_not_count() -> None:
    assert not survived(worker(20, -1), worker(600, 1))


def test_only_steps_after_the_last_signal_count() -> None:
    signals = EndSignals()
    signals.record(signal.SIGINT, is_from_terminal=True)
    signals.follow(worker(20, 1))
    signals.record(signal.SIGINT, is_from_terminal=True)
    signals.follow(worker(600, 2))
    assert not signals.were_survived(worker(600, 3), 0)
    assert signals.were_survived(worker(610, 3), 0)


def test_a_job_that_was_killed_afterwards_has_not_survived() -> None:
    signals = EndSignals()
    signals.record(signal.SIGTERM, is_from_terminal=False)
    signals.follow(worker(20, 1))
    assert signals.were_survived(worker(600, 2), 3)
    assert not signals.were_survived(worker(600, 2), -9)


def test_a_signal_that_the_job_ignores_does_not_count_unless_another_one_follows() -> None:
    signals = EndSignals()
    signals.record(signal.SIGTERM, is_from_terminal=False, is_ignored=True)
    assert signals.were_survived({}, 0)
    assert not signals.were_survived({}, -9)
    signals.record(signal.SIGINT, is_from_terminal=False)
    assert not signals.were_survived({}, 0)
