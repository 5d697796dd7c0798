"""Selection of columns by a rule's needs, with many runs of one model in one process."""

from __future__ import annotations

from pathlib import Path

from leadline.judge.evaluator import Evaluator
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear
from leadline.rules.rule import Rule
from leadline.store import codec
from leadline.testing.runs import START_NS, Capture, RunWriter

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
