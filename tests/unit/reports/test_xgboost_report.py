"""The XGBoost report: nine sections for every kind of model, with the numbers of its run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tree_scenarios import answers, counts, importances, loss

from leadline.reader.run import Run
from leadline.records.series import TensorInfo
from leadline.reports import xgboost
from leadline.reports.html import render
from leadline.reports.section import Chapter, Report, Section
from leadline.testing.runs import Capture, Part, RunWriter

KEYS = (
    "label-distribution",
    "loss",
    "feature-importance",
    "confusion-matrix",
    "evaluation",
    "class-accuracy",
    "roc",
    "residuals",
    "error-by-label",
)
OF_CLASSES = frozenset({"confusion-matrix", "evaluation", "class-accuracy", "roc"})
OF_NUMBERS = frozenset({"residuals", "error-by-label"})
RANDOM = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 1], 20)


def chapter(folder: Path, parts: list[Part], **settings: object) -> Chapter:
    writer = RunWriter(folder / "run").write_all(parts)
    told = {"hyperparameters": settings, "evaluated_on": "holdout"} if settings else {}
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", **told)
    writer.set_status("Completed", exit_status=0)
    return xgboost.chapter(Run(writer.path))


def training(labels: np.ndarray, predictions: np.ndarray, *, is_class: bool = True) -> list[Part]:
    parts: list[Part] = [loss(step, train=1 / (step + 1), holdout=1.1 / (step + 1)) for step in range(11)]
    for step in (0, 5, 10):
        parts += [importances(step, {"age": 0.25, "<b>": 0.75}, kind) for kind in ("weight", "gain", "cover")]
        parts += answers(step, labels, predictions, is_class=is_class)
    return parts


def binary(folder: Path) -> Chapter:
    return chapter(folder, training(LABELS, np.where(LABELS, 0.8, 0.1)), objective="binary:logistic", max_depth=3)


def section(found: Chapter, key: str) -> Section:
    return next(each for each in found.sections if each.key == key)


def empty_keys(found: Chapter) -> set[str]:
    assert all(bool(each.why_empty) != bool(each.charts or each.tables) for each in found.sections)
    return {each.key for each in found.sections if each.why_empty}


def test_a_binary_model_has_all_but_what_is_of_regressions(tmp_path: Path) -> None:
    found = binary(tmp_path)
    assert tuple(each.key for each in found.sections) == KEYS
    assert empty_keys(found) == OF_NUMBERS
    assert found.paragraphs == (
        "This is a binary classification, with the objective binary:logistic, trained by xgboost 3.2.0.",
        "Hyperparameters: max_depth 3.",
    )
    assert section(found, "label-distribution").paragraphs == (
        "60 labels of the set holdout in 2 classes; the largest, 1, has 2 times the labels of the smallest, 0.",
    )


def test_a_model_of_several_classes_has_a_curve_for_each(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], 20)
    found = chapter(tmp_path, training(labels, RANDOM.random((60, 3))), objective="multi:softprob")
    assert empty_keys(found) == OF_NUMBERS
    (chart,) = section(found, "roc").charts
    assert len(chart.figure.data) == 5


def test_classes_without_scores_have_no_curve_and_the_report_says_why(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], 20)
    found = chapter(tmp_path, training(labels, labels[::-1]), objective="multi:softmax")
    assert empty_keys(found) == OF_NUMBERS | {"roc"}
    assert "multi:softprob" in section(found, "roc").why_empty


def test_a_regression_has_residuals_and_no_classes(tmp_path: Path) -> None:
    labels = RANDOM.normal(size=60)
    found = chapter(tmp_path, training(labels, labels - 2.0, is_class=False), objective="reg:squarederror")
    assert empty_keys(found) == OF_CLASSES
    assert section(found, "roc").why_empty == "A regression has no classes, and so no ROC curve."
    words = section(found, "residuals").paragraphs[0]
    assert words.startswith("At round 10 the mean residual is 2, the mean absolute one 2, the standard deviation")
    assert words.endswith("Predictions are too low on the whole.")
    assert len(section(found, "error-by-label").charts[0].figure.data) <= 10


def test_a_ranking_has_losses_and_importances(tmp_path: Path) -> None:
    found = chapter(tmp_path, training(LABELS, LABELS * 0.5), objective="rank:ndcg")
    assert empty_keys(found) == OF_CLASSES | OF_NUMBERS
    assert "Rankings have losses and importances" in found.paragraphs[0]


def test_without_labels_the_report_says_how_to_have_them(tmp_path: Path) -> None:
    found = chapter(tmp_path, [loss(0, train=1.0)], objective="binary:logistic")
    assert empty_keys(found) == set(KEYS) - {"loss"}
    assert "--rule create_xgboost_report" in section(found, "confusion-matrix").why_empty
    bare = chapter(tmp_path / "bare", [])
    assert empty_keys(bare) == set(KEYS)


def test_counts_of_the_training_serve_where_labels_were_not_kept(tmp_path: Path) -> None:
    parts: list[Part] = [counts(step, [30, 30], [[25, 5], [5, 25]]) for step in (0, 5)]
    found = chapter(tmp_path, parts, objective="binary:logistic")
    assert empty_keys(found) == set(KEYS) - {"label-distribution", "confusion-matrix", "evaluation", "class-accuracy"}
    assert section(found, "label-distribution").paragraphs[0].startswith("60 labels of the set holdout in 2 classes")
    (micro, *_), _ = (each.rows for each in section(found, "evaluation").tables)
    assert micro == ("micro", pytest.approx(5 / 6), pytest.approx(5 / 6), pytest.approx(5 / 6))


def test_what_is_written_is_what_was_counted(tmp_path: Path) -> None:
    predictions = np.where(LABELS, 0.8, 0.1)
    predictions[:5] = 0.9
    found = chapter(tmp_path, training(LABELS, predictions), objective="binary:logistic")
    assert section(found, "confusion-matrix").paragraphs == (
        "91.7% of 60 samples are on the diagonal, predicted as what they are. The most frequent mistake: class 0 taken "
        "for class 1, 5 times.",
    )
    averages, classes = section(found, "evaluation").tables
    assert [row[0] for row in averages.rows] == ["micro", "macro", "weighted"]
    assert classes.rows[0] == ("0", 20, 1.0, 0.75, pytest.approx(6 / 7))


def test_each_loss_has_a_chart_of_its_own_and_metrics_alone_do_as_well(tmp_path: Path) -> None:
    def captured(step: int, **values: float) -> Capture:
        kinds = {"rmse": "losses", "mae": "losses", "ndcg": "metrics"}
        infos = {f"a-{each}": TensorInfo(f"a-{each}", (kinds[each], "validation_set")) for each in values}
        return Capture(step, {f"a-{name}": {"value": each} for name, each in values.items()}, infos=infos)

    both = chapter(tmp_path / "both", [captured(step, rmse=2.0 - step, mae=1.0, ndcg=0.5) for step in range(2)])
    titles = [each.figure.layout.title.text for each in section(both, "loss").charts]
    assert titles == ["Loss mae", "Loss rmse", "Metric ndcg"]
    alone = section(chapter(tmp_path / "alone", [captured(0, ndcg=0.5)]), "loss")
    assert alone.paragraphs[0].startswith("No metric of this training is a loss")
    assert len(alone.charts) == 1


def test_one_mistake_and_classes_of_one_size_are_told_as_such(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], 30)
    predictions = np.where(labels, 0.8, 0.1)
    predictions[0] = 0.9
    found = chapter(tmp_path, training(labels, predictions), objective="binary:logistic")
    assert section(found, "label-distribution").paragraphs[0].endswith("in 2 classes of about the same size.")
    assert section(found, "confusion-matrix").paragraphs[0].endswith("class 0 taken for class 1, once.")


def test_answers_of_the_training_set_are_told_as_such(tmp_path: Path) -> None:
    parts = answers(0, LABELS, LABELS * 0.9)
    writer = RunWriter(tmp_path / "run").write_all(parts)
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", evaluated_on="train")
    assert "learned by heart" in xgboost.chapter(Run(writer.path)).paragraphs[1]
    assert not any("by heart" in words for words in binary(tmp_path / "other").paragraphs)


def test_a_feature_that_has_most_of_the_gain_is_asked_after(tmp_path: Path) -> None:
    assert (
        "By gain <b> has 75%: is it known when it counts?" in section(binary(tmp_path), "feature-importance").paragraphs
    )


def test_it_becomes_one_page_and_names_stay_text(tmp_path: Path) -> None:
    page = render(Report("run", "Report of run", (binary(tmp_path),)))
    assert "By gain &lt;b&gt; has 75%" in page
    assert "By gain <b>" not in page
