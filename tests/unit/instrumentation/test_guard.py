"""The guard fails open, reports once, and lets the training's own exits pass."""

from __future__ import annotations

import threading

import pytest

from leadline.errors import TrainingStopped
from leadline.instrumentation.guard import Facts, Guard


def test_a_failure_is_reported_once_and_later_calls_do_nothing() -> None:
    failures: list[str] = []
    guard = Guard(failures.append)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ValueError("planted")

    assert guard.run(fail) is None
    assert guard.wrap(fail)() is None
    assert calls == [1]
    assert len(failures) == 1
    assert "ValueError: planted" in failures[0]
    assert "test_guard.py:" in failures[0]


def test_a_failure_is_reported_without_secrets() -> None:
    failures: list[str] = []

    def fail() -> None:
        raise ValueError("postgres://u:hunter2@h refused")

    Guard(failures.append).run(fail)
    assert failures[0].startswith("ValueError: postgres://u:****@h refused (")


@pytest.mark.parametrize("kind", [TrainingStopped, KeyboardInterrupt, SystemExit])
def test_exits_pass(kind: type[BaseException]) -> None:
    guard = Guard(lambda _: None)

    def leave() -> None:
        raise kind

    with pytest.raises(kind):
        guard.run(leave)
    assert guard.is_open


def test_calls_of_several_threads_wait_for_one_another_except_wrapped_ones() -> None:
    guard, inside, most = Guard(lambda _: None), 0, 0
    entered, may_leave = threading.Event(), threading.Event()

    def call() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        entered.set()
        may_leave.wait(60)
        inside -= 1

    threads = [threading.Thread(target=guard.run, args=(call,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(60)
    assert guard.wrap(lambda: "through")() == "through"
    may_leave.set()
    for thread in threads:
        thread.join()
    assert (most, inside) == (1, 0)


def facts() -> tuple[Facts, list[str]]:
    notes: list[str] = []
    return Facts(notes.append, lambda: 1300), notes


def divide(number: float) -> float:
    return 1.0 / number


def test_a_fact_that_fails_ends_alone_and_is_noted_once_with_its_step() -> None:
    every, notes = facts()
    fact, other = every.of("names of losses are"), every.of("accuracies are")
    assert [fact.call(divide, number) for number in (2.0, 0.0, 4.0)] == [0.5, None, None]
    assert other.call(divide, 4.0) == 0.25
    (note,) = notes
    assert note.startswith("names of losses are not captured from step 1,300 on: ZeroDivisionError: float division")
    assert (fact.has_ended, other.has_ended, list(every.failures)) == (True, False, ["names of losses are"])
    assert every.of("names of losses are") is fact


def test_a_vital_fact_is_read_again_and_noted_once() -> None:
    every, notes = facts()
    fact = every.of("losses are", is_vital=True)
    assert [fact.call(divide, number) for number in (0.0, 2.0, 0.0, 4.0)] == [None, 0.5, None, 0.25]
    (note,) = notes
    assert note.startswith("losses are not captured at step 1,300: ZeroDivisionError: float division by zero (")


def test_a_fact_does_not_catch_what_belongs_to_the_training() -> None:
    every, notes = facts()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        every.of("losses are").call(interrupt)
    assert notes == []
