"""The guard fails open, tells once, and lets the training's own exits through."""

from __future__ import annotations

import pytest

from leadline.errors import StopTraining
from leadline.probes.guard import Guard


def test_a_failure_is_told_once_and_everything_after_it_is_a_no_op() -> None:
    told: list[str] = []
    guard = Guard(told.append)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ValueError("planted")

    assert guard.run(fail) is None
    assert guard.wrap(fail)() is None
    assert calls == [1]
    assert len(told) == 1
    assert "ValueError: planted" in told[0]
    assert "test_guard.py:" in told[0]


@pytest.mark.parametrize("kind", [StopTraining, KeyboardInterrupt, SystemExit])
def test_exits_pass(kind: type[BaseException]) -> None:
    guard = Guard(lambda _: None)

    def leave() -> None:
        raise kind

    with pytest.raises(kind):
        guard.run(leave)
    assert guard.is_open
