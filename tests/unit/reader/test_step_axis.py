"""The axis of train steps, compared with a plain count of the steps of every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leadline.reader.step_axis import StepAxis, StepPlacer, TrainSteps

LOOPS = st.lists(st.tuples(st.sampled_from(["train", "train", "eval", "predict"]), st.integers(1, 6)), max_size=30)


class Step(NamedTuple):
    step: int
    mode: str
    mode_step: int
    finished: int
    """The train step that it is, or that had been finished."""


def counted(loop: list[tuple[str, int]], *, counts_others: bool = True) -> list[Step]:
    """Count the steps of a loop, as the step clock does."""
    rows, step, finished = [], 0, dict.fromkeys(("train", "eval", "predict"), 0)
    for mode, count in loop:
        for _ in range(count):
            at = finished["train"] - (mode != "train")
            rows.append(Step(step, mode, finished[mode], max(0, at)))
            finished[mode] += 1
            step += counts_others or mode == "train"
    return rows


def axis_of(rows: list[Step]) -> StepAxis:
    modes = {row.mode for row in rows}
    stamps = {mode: np.array([row[:3:2] for row in rows if row.mode == mode], np.int64) for mode in sorted(modes)}
    return StepAxis((mode, columns[:, 0], columns[:, 1]) for mode, columns in stamps.items())


def check(loop: list[tuple[str, int]], is_recorded: Callable[[Step], bool] = lambda row: True) -> None:
    rows = counted([("train", 1), *loop])
    axis = axis_of([row for row in rows if is_recorded(row)])
    for row in rows:
        assert axis.position(row.step, row.mode) == row.finished
        if row.mode == "train":
            assert axis.global_step(row.mode_step) == row.step
        if is_recorded(row):
            assert axis.mode_step(row.step, row.mode) == row.mode_step


@given(LOOPS)
def test_each_step_stands_at_the_train_step_that_it_is_or_that_was_finished(loop: list[tuple[str, int]]) -> None:
    check(loop)


@given(LOOPS)
def test_train_steps_that_were_not_recorded_are_counted(loop: list[tuple[str, int]]) -> None:
    check([step for step in loop if step[0] != "predict"], lambda row: row.mode != "train" or row.mode_step % 7 == 0)


@given(LOOPS)
def test_ranks_count_only_train_steps(loop: list[tuple[str, int]]) -> None:
    rows = counted([("train", 1), *loop], counts_others=False)
    axis = axis_of(rows)
    assert [axis.position(row.step, row.mode) for row in rows] == [row.finished for row in rows]


@given(LOOPS)
def test_while_a_run_is_read_its_steps_stand_where_they_do_afterwards(loop: list[tuple[str, int]]) -> None:
    rows = counted([("train", 1), *loop])
    axis, placer = axis_of(rows), StepPlacer()
    placed = [placer.place(row.step, row.mode, row.mode_step) for row in rows]
    assert placed == [axis.position(row.step, row.mode) for row in rows]


@given(LOOPS, st.randoms())
def test_train_steps_by_global_step_do_not_depend_on_the_order_of_the_batches(
    loop: list[tuple[str, int]], random: object
) -> None:
    rows, known = counted([("train", 1), *loop]), TrainSteps()
    batches = [rows[start : start + 5] for start in range(0, len(rows), 5)]
    random.shuffle(batches)  # type: ignore[attr-defined]
    for batch in batches:
        train_steps = [row.mode_step if row.mode == "train" else -1 for row in batch]
        known.add(np.array([row.step for row in batch]), np.array(train_steps))
    assert [known.of(row.step) for row in rows if row.mode == "train"] == [
        row.mode_step for row in rows if row.mode == "train"
    ]


def test_a_worker_that_never_trains_counts_the_steps_of_its_first_mode() -> None:
    axis = axis_of([Step(step, "eval", step, step) for step in range(5)])
    assert axis.modes == ("eval",)
    assert axis.positions([0, 3, 9], "eval").tolist() == [0, 3, 9]
    assert StepAxis().is_identity


def test_a_range_of_train_steps_includes_the_evaluations_after_them() -> None:
    axis = axis_of(counted([("train", 10), ("eval", 5), ("train", 10), ("eval", 5)]))
    assert axis.global_range(5, 10) == (5, 15)
    assert axis.global_range(10, 20) == (15, None)
    assert axis.global_range(None, None) == (None, None)


@given(LOOPS, st.randoms(), st.integers(1, 3))
def test_the_order_of_records_and_their_repetition_do_not_matter(
    loop: list[tuple[str, int]], random: object, series: int
) -> None:
    rows = counted(loop)
    again = [row for row in rows for _ in range(series)]
    random.shuffle(again)  # type: ignore[attr-defined]
    one, other = axis_of(rows), axis_of(again)
    parts = [(row.mode, np.array([row.step]), np.array([row.mode_step])) for row in again]
    apart = StepAxis(parts)
    for row in rows:
        places = {axis.position(row.step, row.mode) for axis in (one, other, apart)}
        assert len(places) == 1
