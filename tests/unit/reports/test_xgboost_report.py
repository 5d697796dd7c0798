"""The XGBoost report: nine sections for every kind of model, with the numbers of its run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tree_scenarios import answers, counts, importances, loss

from leadline.reader.run import Run
from leadline.records.series import TensorInfo
from leadline.reports import xgboost
from leadline.reports.files import render
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
    facts = {"hyperparameters": settings, "evaluated_on": "holdout"} if settings else {}
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", **facts)
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


def section(report: Chapter, key: str) -> Section:
    return next(entry for entry in report.sections if entry.key == key)


def empty_keys(report: Chapter) -> set[str]:
    assert all(bool(entry.why_empty) != bool(entry.charts or entry.tables) for entry in report.sections)
    return {entry.key for entry in report.sections if entry.why_empty}


def test_a_binary_model_has_all_sections_but_those_of_regressions(tmp_path: Path) -> None:
    report = binary(tmp_path)
    assert tuple(entry.key for entry in report.sections) == KEYS
    assert empty_keys(report) == OF_NUMBERS
    assert report.paragraphs == (
        "This is a binary classification, with the objective binary:logistic, trained by xgboost 3.2.0.",
        "Hyperparameters: max_depth 3.",
    )
    assert section(report, "label-distribution").paragraphs == (
        "60 labels of the set holdout in 2 classes; the largest (1) has 2 times as many labels as the smallest (0).",
    )


def test_a_model_of_several_classes_has_a_curve_for_each(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], 20)
    report = chapter(tmp_path, training(labels, RANDOM.random((60, 3))), objective="multi:softprob")
    assert empty_keys(report) == OF_NUMBERS
    (chart,) = section(report, "roc").charts
    assert len(chart.figure.data) == 5


def test_classes_without_scores_have_no_curve(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], 20)
    report = chapter(tmp_path, training(labels, labels[::-1]), objective="multi:softmax")
    assert empty_keys(report) == OF_NUMBERS | {"roc"}
    assert "multi:softprob" in section(report, "roc").why_empty


def test_a_regression_has_residuals_and_no_classes(tmp_path: Path) -> None:
    labels = RANDOM.normal(size=60)
    report = chapter(tmp_path, training(labels, labels - 2.0, is_class=False), objective="reg:squarederror")
    assert empty_keys(report) == OF_CLASSES
    assert section(report, "roc").why_empty == "A regression has no classes and therefore no ROC curve."
    text = section(report, "residuals").paragraphs[0]
    assert text.startswith("At round 10 the mean residual is 2, the mean absolute error 2, the standard deviation")
    assert text.endswith("Predictions are too low on average.")
    assert len(section(report, "error-by-label").charts[0].figure.data) <= 10


def test_a_ranking_has_losses_and_importances(tmp_path: Path) -> None:
    report = chapter(tmp_path, training(LABELS, LABELS * 0.5), objective="rank:ndcg")
    assert empty_keys(report) == OF_CLASSES | OF_NUMBERS
    assert "do not apply to rankings" in report.paragraphs[0]


def test_without_labels_the_report_names_the_rule_that_captures_them(tmp_path: Path) -> None:
    report = chapter(tmp_path, [loss(0, train=1.0)], objective="binary:logistic")
    assert empty_keys(report) == set(KEYS) - {"loss"}
    assert "--rule create_xgboost_report" in section(report, "confusion-matrix").why_empty
    bare = chapter(tmp_path / "bare", [])
    assert empty_keys(bare) == set(KEYS)


def test_counts_of_rules_are_used_without_captured_labels(tmp_path: Path) -> None:
    parts: list[Part] = [counts(step, [30, 30], [[25, 5], [5, 25]]) for step in (0, 5)]
    report = chapter(tmp_path, parts, objective="binary:logistic")
    assert empty_keys(report) == set(KEYS) - {"label-distribution", "confusion-matrix", "evaluation", "class-accuracy"}
    assert section(report, "label-distribution").paragraphs[0].startswith("60 labels of the set holdout in 2 classes")
    (micro, *_), _ = (table.rows for table in section(report, "evaluation").tables)
    assert micro == ("micro", pytest.approx(5 / 6), pytest.approx(5 / 6), pytest.approx(5 / 6))


def test_numbers_in_text_and_tables(tmp_path: Path) -> None:
    predictions = np.where(LABELS, 0.8, 0.1)
    predictions[:5] = 0.9
    report = chapter(tmp_path, training(LABELS, predictions), objective="binary:logistic")
    assert section(report, "confusion-matrix").paragraphs == (
        "92 % of 60 samples are predicted correctly. The most frequent error: class 0 predicted as class 1, 5 times.",
    )
    averages, classes = section(report, "evaluation").tables
    assert [row[0] for row in averages.rows] == ["micro", "macro", "weighted"]
    assert classes.rows[0] == ("0", 20, 1.0, 0.75, pytest.approx(6 / 7))


def test_one_chart_for_each_loss_and_metric(tmp_path: Path) -> None:
    def captured(step: int, **values: float) -> Capture:
        kinds = {"rmse": "losses", "mae": "losses", "ndcg": "metrics"}
        infos = {f"a-{name}": TensorInfo(f"a-{name}", (kinds[name], "validation_set")) for name in values}
        return Capture(step, {f"a-{name}": {"value": value} for name, value in values.items()}, infos=infos)

    both = chapter(tmp_path / "both", [captured(step, rmse=2.0 - step, mae=1.0, ndcg=0.5) for step in range(2)])
    titles = [chart.figure.layout.title.text for chart in section(both, "loss").charts]
    assert titles == ["Loss mae", "Loss rmse", "Metric ndcg"]
    alone = section(chapter(tmp_path / "alone", [captured(0, ndcg=0.5)]), "loss")
    assert alone.paragraphs[0].startswith("None of the metrics is a loss")
    assert len(alone.charts) == 1


def test_text_for_one_error_and_balanced_classes(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], 30)
    predictions = np.where(labels, 0.8, 0.1)
    predictions[0] = 0.9
    report = chapter(tmp_path, training(labels, predictions), objective="binary:logistic")
    assert section(report, "label-distribution").paragraphs[0].endswith("in 2 classes of similar size.")
    assert section(report, "confusion-matrix").paragraphs[0].endswith("class 0 predicted as class 1, once.")


def test_labels_of_the_training_set_are_noted(tmp_path: Path) -> None:
    parts = answers(0, LABELS, LABELS * 0.9)
    writer = RunWriter(tmp_path / "run").write_all(parts)
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", evaluated_on="train")
    assert "there is no evaluation set" in xgboost.chapter(Run(writer.path)).paragraphs[1]
    assert not any("no evaluation set" in text for text in binary(tmp_path / "other").paragraphs)


def test_a_dominant_feature_is_noted(tmp_path: Path) -> None:
    assert (
        "<b> has 75 % of the gain: check that it is available"
        in section(binary(tmp_path), "feature-importance").paragraphs[1]
    )


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    page = render(Report("run", "Report of run", (binary(tmp_path),)))
    assert "&lt;b&gt; has 75 % of the gain" in page
    assert "<b> has" not in page


def test_of_several_trainings_the_fit_of_the_last_is_assessed(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run")
    for start, best in ((0, 0.1), (10, 0.3)):
        losses = [1 / (round_ + 1) for round_ in range(10)]
        writer.write_all([loss(start + at, train=value, valid=max(best, value)) for at, value in enumerate(losses)])
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", trainings=(10,))
    report = xgboost.chapter(Run(writer.path))
    first, second = section(report, "loss").paragraphs
    assert first == "The last of 2 trainings, from round 10:"
    assert "risen" not in second
    (chart,) = section(report, "loss").charts
    assert [trace.mode for trace in chart.figure.data] == ["lines", "lines"]
