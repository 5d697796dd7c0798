"""Queued rows as batches: every row once, and of each tensor a prefix of its rows after any number of batches."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.store.row_batches import Row, in_batches


def layout_of(*names: str) -> SeriesLayout:
    return SeriesLayout(tuple(TensorInfo(name, ()) for name in names), tuple((at, "value") for at in range(len(names))))


LAYOUTS = [layout_of(*names) for names in ("a", "ab", "b", "c", "bc", "d", "")]


def rows_of(chosen: list[int]) -> list[Row]:
    return [Row(LAYOUTS[at], StepStamp(step, "train", step, 0), b"") for step, at in enumerate(chosen)]


def steps_by_tensor(rows: list[Row]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for row in rows:
        for tensor in row.layout.tensors:
            found[tensor.name].append(row.stamp.step)
    return found


@given(chosen=st.lists(st.integers(0, len(LAYOUTS) - 1), max_size=60))
def test_after_any_number_of_batches_no_tensor_has_a_gap(chosen: list[int]) -> None:
    rows = rows_of(chosen)
    batches = in_batches(rows)
    assert sorted((row for batch in batches for row in batch), key=lambda row: row.stamp.step) == rows
    assert all(row.layout is batch[0].layout for batch in batches for row in batch)
    whole, written = steps_by_tensor(rows), []
    for batch in batches:
        written += batch
        for name, steps in steps_by_tensor(written).items():
            assert steps == whole[name][: len(steps)]


def test_layouts_without_a_common_tensor_have_one_batch_each() -> None:
    assert [len(batch) for batch in in_batches(rows_of([0, 2, 3, 5] * 30))] == [30] * 4


def test_batches_have_a_limit() -> None:
    assert [len(batch) for batch in in_batches(rows_of([0] * 600))] == [256, 256, 88]


def test_layouts_that_alternate_do_not_make_a_batch_of_every_row() -> None:
    batches = in_batches(rows_of([0, 1] * 500))
    assert sum(map(len, batches)) == 1000
    assert len(batches) < 70
