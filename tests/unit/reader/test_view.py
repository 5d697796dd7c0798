"""Selection of columns by a rule's needs, with many runs of one model in one process."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from leadline.judge.evaluator import Evaluator
from leadline.reader.view import View
from leadline.reader.window import reading_order
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear
from leadline.rules.rule import Rule
from leadline.store import codec
from leadline.testing.runs import START_NS, Capture, RunWriter
from leadline.testing.windows import points

Seen = list[tuple[int, list[tuple[str, float]]]]


def seen(path: str, *needs: TensorNeed) -> Seen:
    """Return the readings of a rule with these needs, by step."""
    shown: Seen = []

    class Looking(Rule, frozen=True):
        def needs(self) -> Needs:
            return Needs(needs)

        def evaluate(self, window):
            shown.append((window.global_step, [(each.tensor, each.value) for each in window.readings("value")]))
            return Clear()

    judging = Evaluator(path, [("looking", Looking())], started_ns=START_NS)
    assert judging.advance(is_over=True).rules["looking"]["error"] is None
    return shown


def run(path: Path, scale: float, metric: str = "accuracy") -> str:
    parts = [
        Capture(step, {"loss": {"value": scale * step}, metric: {"value": 1.0, "mean": 3.0}}, mode=mode)
        for step, mode in enumerate(("train", "eval", "train", "train"))
    ]
    return RunWriter(path).write_all(parts).end().path


def test_runs_with_equal_layouts_are_not_confused(tmp_path: Path) -> None:
    first, second = run(tmp_path / "first", 1.0), run(tmp_path / "second", 2.0)
    loss = TensorNeed("losses", statistics=("value",))
    assert seen(first, loss) == [(step, [("loss", 1.0 * step)]) for step in (0, 1, 2, 3)]
    assert seen(second, loss) == [(step, [("loss", 2.0 * step)]) for step in (0, 1, 2, 3)]


def test_layouts_that_differ_in_a_name_are_not_confused(tmp_path: Path) -> None:
    first, second = run(tmp_path / "first", 1.0, "accuracy"), run(tmp_path / "second", 1.0, "precision")
    need = TensorNeed(regex="accuracy|precision", statistics=("value",), modes=("train",))
    assert seen(first, need)[0] == (0, [("accuracy", 1.0)])
    assert seen(second, need)[0] == (0, [("precision", 1.0)])


def test_needs_are_not_confused(tmp_path: Path) -> None:
    path = run(tmp_path / "first", 1.0)
    ended = TensorNeed("losses", statistics=("value",), end=2)
    evaluated = TensorNeed("losses", statistics=("value",), modes=("eval",))
    assert [step for step, _ in seen(path, ended)] == [0, 1]
    assert [step for step, _ in seen(path, evaluated)] == [1]
    assert [step for step, _ in seen(path, ended, evaluated)] == [0, 1]
    assert [step for step, _ in seen(path, TensorNeed("losses", statistics=("value",)))] == [0, 1, 2, 3]


def test_needs_accept_lists(tmp_path: Path) -> None:
    need = TensorNeed("losses", statistics=["value"], modes=["train"])  # type: ignore[arg-type]
    assert [step for step, _ in seen(run(tmp_path / "first", 1.0), need)] == [0, 2, 3]


def test_a_layout_that_is_read_again_is_the_same_object() -> None:
    metadata = {"tensors": '[["loss", ["losses"], [], "float64"]]', "columns": '[[0, "value"]]'}
    assert codec.parse_series_metadata(metadata) is codec.parse_series_metadata(dict(metadata))


@given(
    workers=st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True),
    names=st.lists(st.sampled_from(["loss", "b.loss", "accuracy", "lr", "w.weight"]), min_size=1, unique=True),
    other=st.booleans(),
    positive=st.booleans(),
)
def test_readings_of_many_workers_are_in_the_order_of_the_specification(
    workers: list[int], names: list[str], other: bool, positive: bool
) -> None:
    """As ``reading_order`` sorts them, with one layout or several, and the same for each rule that asks."""
    numbers = {(rank, name): float(rank - 5 + index) for rank in workers for index, name in enumerate(names)}
    parts = [Capture(0, {name: {"value": numbers[rank, name]} for name in names}, f"rank{rank}-1") for rank in workers]
    parts += [Capture(0, {"late": {"value": 1.0}}, f"rank{workers[0]}-1")] if other else []
    (point,) = points(parts, shapes={})
    where = (lambda values: values > 0) if positive else None
    found = []
    for need in (TensorNeed("all", statistics=("value",)), TensorNeed(regex=".*", statistics=("value",))):
        window = View([need]).select(point)
        assert window is not None
        found.append(window.readings("value", where=where))
    assert found[0] == found[1] == sorted(found[0], key=reading_order)
    told = {(reading.worker, reading.tensor): reading.value for reading in found[0]}
    expected = {(f"rank{rank}-1", name): value for (rank, name), value in numbers.items()}
    expected |= {(f"rank{workers[0]}-1", "late"): 1.0} if other else {}
    assert told == {key: value for key, value in expected.items() if not positive or value > 0}
