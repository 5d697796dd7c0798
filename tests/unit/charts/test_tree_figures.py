"""Charts of boosted trees: data, messages, escaped names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from leadline.analysis.scores import roc, roc_of_classes
from leadline.analysis.trees import Loss
from leadline.charts import trees

HOSTILE = ("<script>alert(1)</script>", "../../etc", "x" * 10_000, "😀", "%{x}", "$\\alpha$")
NAN = float("nan")


def loss(name: str = "train-rmse", role: Any = "train", values: Any = (3.0, 2.0, 2.5)) -> Loss:
    return Loss(name, role, "rmse", np.arange(len(values)), np.asarray(values, np.float64))


RANDOM = np.random.default_rng(0)
SCORES = RANDOM.random((50, 3))
FULL: dict[str, go.Figure] = {
    "class_sizes": trees.class_sizes(np.array([5.0, 0.0, 2.0])),
    "spread": trees.distribution(RANDOM.normal(size=500), x="label", has_zero=True),
    "losses": trees.losses([loss(), loss("test-rmse", "validation")]),
    "importance": trees.importance({"a": 0.75, "b": 0.25}, kind="total_gain"),
    "confusion": trees.confusion(np.array([[3.0, 1.0], [0.0, 4.0]])),
    "class_accuracy": trees.class_accuracy([0, 5], np.array([[0.5, 1.0], [0.6, 0.9]])),
    "roc": trees.roc(roc_of_classes(RANDOM.integers(0, 3, 50), SCORES)),
    "error_by_bin": trees.error_by_bin([0, 5], np.array([[1.0, 2.0], [0.5, NAN]]), np.array([0.0, 1.0, 2.0])),
}
EMPTY: dict[str, go.Figure] = {
    "class_sizes": trees.class_sizes(np.zeros(0)),
    "spread": trees.distribution(np.array([NAN]), x="label"),
    "losses": trees.losses([]),
    "losses of NaN": trees.losses([loss(values=(NAN, NAN))]),
    "importance": trees.importance({"a": 0.0, "b": NAN}, kind="gain"),
    "confusion": trees.confusion(None),
    "confusion of nothing": trees.confusion(np.zeros((2, 2))),
    "class_accuracy": trees.class_accuracy([], np.zeros((0, 0))),
    "class_accuracy of NaN": trees.class_accuracy([0], np.array([[NAN]])),
    "roc": trees.roc({}),
    "error_by_bin": trees.error_by_bin([], np.zeros((0, 0)), np.zeros(0)),
}


@pytest.mark.parametrize("name", FULL)
def test_axes_have_titles_and_a_figure_is_small(name: str) -> None:
    figure = FULL[name]
    assert figure.layout.xaxis.title.text
    assert figure.layout.yaxis.title.text
    assert bool(figure.layout.title.text) == (name in ("losses", "importance", "confusion"))
    assert figure.layout.template.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert len(figure.to_json()) < 100_000


@pytest.mark.parametrize("name", EMPTY)
def test_missing_data_is_shown_as_a_message(name: str) -> None:
    figure = EMPTY[name]
    assert len(figure.data) == 0
    assert figure.layout.meta["empty"]
    assert figure.layout.annotations[0].text == figure.layout.meta["empty"]


@pytest.mark.parametrize("malicious", HOSTILE)
def test_names_are_text(malicious: str) -> None:
    figures = [
        trees.losses([loss(malicious), Loss("b", "validation", malicious, np.arange(2), np.ones(2))]),
        trees.importance({malicious: 1.0}, kind=malicious),
        trees.roc({malicious: found} if (found := roc(np.array([0, 1]), np.array([0.1, 0.9]))) else {}),
    ]
    for figure in figures:
        text = json.dumps(figure.to_dict(), default=str, ensure_ascii=False)
        assert "<script" not in text
        assert "x" * 100 not in text
        assert "%{x}%" not in text
        assert "$\\\\alpha$" not in text


def test_bars_are_as_the_numbers_are() -> None:
    (bar,) = FULL["class_sizes"].data
    assert (bar.x.tolist(), bar.y.tolist()) == ([0, 1, 2], [5, 0, 2])
    (bar,) = FULL["importance"].data
    assert (list(bar.x), FULL["importance"].layout.yaxis.ticktext) == ([75, 25], ("a", "b"))
    (bar,) = FULL["spread"].data
    assert bar.y.sum() == 500


def test_a_validation_loss_is_dashed_and_its_lowest_round_marked() -> None:
    train, test, mark = FULL["losses"].data
    assert (train.line.dash, test.line.dash) == ("solid", "dash")
    assert (list(mark.x), [float(each) for each in mark.y]) == ([1], [2.0])
    assert len(trees.losses([loss(), loss("b", "validation")], marks_best=False).data) == 2


def test_a_confusion_matrix_is_coloured_by_rows_and_written_in_counts() -> None:
    (heat,) = FULL["confusion"].data
    assert heat.z.tolist() == [[75, 25], [0, 100]]
    assert [list(each) for each in heat.text] == [["3", "1"], ["0", "4"]]
    (large,) = trees.confusion(np.eye(300)).data
    assert (large.z.shape, large.text) == ((200, 200), None)


def test_many_features_classes_and_losses_are_counted_and_not_drawn() -> None:
    many = {f"f{each}": 1 / 100 for each in range(100)}
    figure = trees.importance(many, kind="gain")
    assert len(figure.data[0].x) == trees.MAX_FEATURES
    assert figure.layout.annotations[0].text == f"and {100 - trees.MAX_FEATURES} more features"
    crowd = trees.class_accuracy([0, 1], np.full((2, 50), 0.5))
    assert (len(crowd.data), crowd.layout.annotations[0].text) == (20, "and 30 more classes")


def test_roc_curves_show_their_area_and_random_guessing() -> None:
    names = [each.name for each in FULL["roc"].data]
    assert [each.split(",")[0] for each in names] == ["class 0", "class 1", "class 2", "micro", "random guessing"]
    assert all("AUC 0." in each for each in names[:-1])


def test_one_round_is_a_mark() -> None:
    assert trees.losses([loss(values=(1.0,))]).data[0].mode == "markers"
    assert trees.class_accuracy([3], np.array([[0.5]])).data[0].mode == "lines+markers"
