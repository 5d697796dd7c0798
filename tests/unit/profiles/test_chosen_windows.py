"""Selection of profile windows by step, worker and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import NotCapturedError
from leadline.profiles.recorded_window import RecordedWindow
from leadline.reader.run import Run
from leadline.records.profile_window import train_step_of
from leadline.testing.runs import START_NS, DetailedProfile, RunWriter


@pytest.fixture
def run(tmp_path: Path) -> Run:
    parts = [
        DetailedProfile("early", 3, START_NS, [("a", 0.0, 1.0)]),
        DetailedProfile("late", 9, START_NS, [("b", 0.0, 1.0)]),
    ]
    RunWriter(tmp_path / "run").write_all(parts).end()
    return Run(str(tmp_path / "run"))


def test_a_step_selects_the_window_that_covers_it(run: Run) -> None:
    assert run.operator_calls(step=9)["operator"].to_pylist() == ["b"]
    assert run.operators(("operator",), step=(3, 4))["operator"].to_pylist() == ["a"]


@pytest.mark.parametrize("asked", [{"step": 5}, {"step": (4, 9)}, {"worker": "rank9-1"}, {"window": "late", "step": 3}])
def test_a_query_without_a_window_is_a_clear_error(asked: dict[str, object], run: Run) -> None:
    with pytest.raises(NotCapturedError, match="no detailed window matches"):
        run.operator_calls(**asked)  # type: ignore[arg-type]


def test_the_steps_of_a_window_are_train_steps() -> None:
    document = {"part": "loop", "first_step": 55, "end_step": 59, "first_train_step": 50, "end_train_step": 52}
    steps = [(55, "train"), (57, "eval"), (56, "eval"), (58, "train"), (55, "train")]
    assert train_step_of(document, steps) == {55: 50, 56: 50, 57: 50, 58: 51}
    window = RecordedWindow("", "rank0-1", document)
    assert window.covers(step=(51, 52), time_ns=None)
    assert not window.covers(step=(52, 60), time_ns=None)
    former = {"part": "loop", "first_step": 55, "end_step": 59}
    assert train_step_of(former, steps) == {55: 55, 56: 56, 57: 57, 58: 58}
