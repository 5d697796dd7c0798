"""Windows: order of readings, history, and the steps that a rule sees."""

from __future__ import annotations

import numpy as np

from leadline.reader.feed import Feed
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import View
from leadline.reader.window import natural_sort_key
from leadline.records.needs import Needs, TensorNeed
from leadline.testing.runs import SECOND_NS, START_NS, Capture, RunWriter
from leadline.testing.windows import points


def test_names_with_numbers_are_in_natural_order() -> None:
    assert sorted(["l.10", "l.9", "l.b", "rank11-5", "rank2-9"], key=natural_sort_key) == [
        "l.9",
        "l.10",
        "l.b",
        "rank2-9",
        "rank11-5",
    ]


def test_any_name_can_be_sorted() -> None:
    nines, tens = f"l{'9' * 9999}", f"l1{'0' * 9999}"
    ordered = ["", "7", "l007", "l9", "l10", nines, tens, "l.", "l²", "l٣", "\ud800"]
    assert sorted(set(ordered), key=natural_sort_key) == ordered


def test_readings_are_ordered_losses_first_then_as_captured() -> None:
    view = View([TensorNeed("all", statistics=("value", "l2"))])
    captured = {"z.weight": {"l2": 1.0}, "a.weight": {"l2": 2.0}, "accuracy": {"value": 3.0}, "loss": {"value": 4.0}}
    (point,) = points([Capture(0, captured, worker="rank1-2"), Capture(0, captured)], shapes={})
    window = view.select(point)
    assert window is not None
    assert [(each.worker, each.tensor) for each in window.readings("value")] == [
        ("rank0-1", "loss"),
        ("rank1-2", "loss"),
        ("rank0-1", "accuracy"),
        ("rank1-2", "accuracy"),
    ]
    assert [each.tensor for each in window.readings("l2")] == ["z.weight", "a.weight"] * 2
    assert [each.tensor for each in window.readings("l2", where=lambda values: values > 1)] == ["a.weight"] * 2
    assert window.readings("max") == []


def test_the_history_is_as_long_as_needed() -> None:
    for history, expected in [(0, []), (2, [2.0, 3.0]), (None, [0.0, 1.0, 2.0, 3.0])]:
        view = View([TensorNeed("losses", statistics=("value",), history=history)])
        for point in points([Capture(step, {"loss": {"value": float(step)}}) for step in range(5)], shapes={}):
            window = view.select(point)
            assert window is not None
            (reading,) = window.readings("value")
            past = [each.value for each in window.earlier(reading)]
            view.advance()
        assert past == expected


def test_only_steps_with_needed_data_have_a_window() -> None:
    view = View(Needs.of("gradients", "abs_mean").tensors)
    parts = [
        Capture(0, {"gradient/a": {"abs_mean": 1.0}}),
        Capture(1, {"gradient/a": {"l2": 1.0}}),
        Capture(2, {"loss": {"value": 1.0}}),
    ]
    assert [view.select(point) is not None for point in points(parts, shapes={})] == [True, False, False]


def test_a_step_is_returned_after_every_worker_has_passed_it(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run")
    feed = Feed(writer.path, TimeGrid(START_NS))

    def given() -> list[int]:
        feed.refresh()
        return [point.step for point in feed.points()]

    loss = {"loss": {"value": 1.0}}
    writer.write(Capture(0, loss))
    writer.write(Capture(0, loss, worker="rank1-2"))
    assert given() == []
    writer.write(Capture(1, loss))
    assert given() == []
    writer.write(Capture(1, loss, worker="rank1-2"))
    assert given() == [0]
    writer.write(Capture(5))
    writer.write(Capture(5, worker="rank1-2"))
    assert given() == [1]
    feed.refresh(gone=["rank1-2"])
    writer.write(Capture(9, loss))
    assert given() == []
    writer.write(Capture(10))
    assert given() == [9]
    assert not feed.has_late_data


def test_the_last_record_of_a_run_that_has_ended_is_a_moment() -> None:
    grid = TimeGrid(START_NS)
    for tenths, step in ((3, 1), (13, 5)):
        grid.add_records(np.array([START_NS + tenths * SECOND_NS // 10]), np.array([step]), np.array([step]))
    assert list(grid.scans()) == []
    grid.finish()
    moments = [((each.time_ns - START_NS) * 10 // SECOND_NS, each.last_step, each.is_last) for each in grid.scans()]
    assert moments == [(10, 1, False), (13, 5, True)]
    assert list(grid.scans()) == []


def test_moments_are_evaluated_after_the_settling_time() -> None:
    grid = TimeGrid(START_NS)
    grid.add_records(np.array([START_NS + SECOND_NS // 2]), np.array([3]), np.array([3]))
    assert list(grid.scans()) == []
    grid.add_heartbeats([START_NS + 4 * SECOND_NS])
    scans = list(grid.scans())
    assert [(each.time_ns - START_NS) // SECOND_NS for each in scans] == [1, 2]
    assert {(each.last_record_ns, each.last_step) for each in scans} == {(START_NS + SECOND_NS // 2, 3)}
    grid.add_records(np.array([START_NS + SECOND_NS + 1]), np.array([4]), np.array([4]))
    assert grid.has_late_data
    grid.restart()
    grid.finish()
    assert [each.last_step for each in grid.scans()] == [3, 4, 4, 4]
