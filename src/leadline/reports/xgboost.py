"""The XGBoost report: nine sections on a model of boosted trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.analysis import scores, trees
from leadline.analysis.boosted_run import BoostedRun
from leadline.analysis.trees import summarize_fit
from leadline.charts import trees as figures
from leadline.charts.theme import plain_text
from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.reports.section import Chapter, Chart, Column, Section, Table, empty
from leadline.statistics import boosting

if TYPE_CHECKING:
    from leadline.analysis.scores import Floats
    from leadline.reader.run import Run

CAPTURE_HINT: Final = "leadline run --rule create_xgboost_report … captures them every 5 rounds"
_NO_SAMPLES: Final = f"Labels and predictions were not captured; {CAPTURE_HINT} for the evaluation set."
_TRAINING_SET: Final = (
    "Labels and predictions are those of the training set, since there is no evaluation set: the sections below do "
    "not show how the model generalizes."
)
_ONLY_METRICS: Final = "None of the metrics is a loss; for the metrics below, higher values are usually better."
_KINDS: Final = {
    "binary": "a binary classification",
    "multiclass": "a multiclass classification",
    "regression": "a regression",
    "ranking": "a ranking",
    "other": "a model of another kind",
}
_SETTINGS: Final = (
    "booster",
    "num_class",
    "eval_metric",
    "max_depth",
    "num_leaves",
    "max_leaves",
    "eta",
    "learning_rate",
    "min_child_weight",
    "min_data_in_leaf",
    "gamma",
    "lambda",
    "lambda_l2",
    "alpha",
    "lambda_l1",
    "subsample",
    "bagging_fraction",
    "colsample_bytree",
    "feature_fraction",
    "scale_pos_weight",
    "max_bin",
    "tree_method",
    "num_parallel_tree",
    "seed",
)
"""The hyperparameters shown in the report, in this order."""
_MAX_ROWS: Final = 30
_BALANCED: Final = 1.05
"""Largest ratio between the sizes of two classes that counts as balanced."""


def chapter(run: Run) -> Chapter:
    """The nine sections; a section without data states the reason.

    Raises:
        DamagedRunError: Labels or predictions cannot be read.
    """
    boosted = BoostedRun(run)
    sections = tuple(make(boosted) for make in SECTIONS.values())
    return Chapter("xgboost", "Boosted trees", sections, introduction(boosted))


def labels(boosted: BoostedRun) -> Section:
    """Section 1: the distribution of the true labels."""
    key, title, last = "label-distribution", "Distribution of true labels", boosted.last
    if last is None and boosted.matrix is None:
        return empty(key, title, _NO_SAMPLES)
    dataset = f" of the set {boosted.model.evaluated_on}" if boosted.model.evaluated_on else ""
    if last is not None and not boosted.is_classifier:
        finite = last.labels[np.isfinite(last.labels)].astype(np.float64)
        text = f"{last.labels.size:,} labels{dataset}"
        if finite.size:
            low, mid, high = np.percentile(finite, (0, 50, 100)).tolist()
            text += f", from {significant(low)} to {significant(high)}, median {significant(mid)}"
        return Section(key, title, (f"{text}.",), (Chart(figures.distribution(last.labels, x="label")),))
    counts = boosting.class_counts(last.labels) if last is not None else _rows(boosted.matrix)
    return Section(key, title, (_class_text(counts, dataset),), (Chart(figures.class_sizes(counts)),))


def _rows(matrix: Floats | None) -> Floats:
    """The number of labels by class, from a confusion matrix."""
    return np.zeros(0) if matrix is None else np.asarray(matrix.sum(axis=1))


def loss(boosted: BoostedRun) -> Section:
    """Section 2: the loss by round, and an assessment of the fit."""
    key, title = "loss", "Loss against step"
    names = {curve.name for curve in boosted.losses}
    metrics = [curve for curve in trees.losses(boosted.run, "metrics") if curve.name not in names]
    if not boosted.losses and not metrics:
        return empty(key, title, "No loss was captured; pass an evaluation set to the booster (evals, eval_set).")
    starts = boosted.run.trainings() or (0,)
    text = summarize_fit([curve.since(starts[-1]) for curve in boosted.losses]) if boosted.losses else [_ONLY_METRICS]
    if len(starts) > 1:
        text = [f"The last of {len(starts):,} trainings, from round {starts[-1]:,}:", *text]
    charts = [
        *_curves(boosted.losses, "Loss", marks_best=len(starts) == 1),
        *_curves(metrics, "Metric", marks_best=False),
    ]
    return Section(key, title, tuple(text), tuple(charts))


def _curves(series: list[trees.Loss], label: str, *, marks_best: bool = True) -> list[Chart]:
    """One chart for each loss or metric, with the curves of all data sets."""
    stems = list(dict.fromkeys(curve.stem for curve in series))
    return [
        Chart(
            figures.losses(
                [curve for curve in series if curve.stem == stem],
                title=f"{label} {plain_text(stem, 40)}",
                marks_best=marks_best,
            ),
            width="full" if len(stems) == 1 and label == "Loss" else "half",
        )
        for stem in stems
    ]


def feature_importance(boosted: BoostedRun) -> Section:
    """Section 3: the importance of the features."""
    key, title = "feature-importance", "Feature importance"
    if not boosted.importances:
        return empty(key, title, "No feature importance was captured (linear boosters have none).")
    charts = tuple(
        Chart(figures.importance(values, kind=kind), width="half", choice=kind.replace("_", " "))
        for kind, values in boosted.importances.items()
    )
    return Section(key, title, (*_importance_text(boosted.importances),), charts)


def confusion(boosted: BoostedRun) -> Section:
    """Section 4: the confusion matrix."""
    key, title = "confusion-matrix", "Confusion matrix"
    if boosted.matrix is None:
        return empty(key, title, _why_no_classes(boosted, "confusion matrix"))
    figure = figures.confusion(boosted.matrix, title=f"Round {max(boosted.matrices):,}")
    return Section(key, title, (_confusion_text(boosted.matrix),), (Chart(figure, width="half"),))


def evaluation(boosted: BoostedRun) -> Section:
    """Section 5: precision, recall and F1."""
    key, title = "evaluation", "Evaluation of the confusion matrix"
    if boosted.matrix is None:
        return empty(key, title, _why_no_classes(boosted, "precision, recall or F1"))
    text = (
        "Micro averages weight all samples equally (and equal the accuracy), macro averages all classes equally, "
        "weighted averages the classes by their labels. A ratio with denominator 0 counts as 0."
    )
    means = scores.averages(boosted.matrix)
    rows = tuple((name, score.precision, score.recall, score.f1) for name, score in means.items())
    columns = (Column("precision"), Column("recall"), Column("F1"))
    averages = Table((Column("average"), *columns), rows, "Averages")
    single = scores.by_class(boosted.matrix)
    sizes = boosted.matrix.sum(axis=1)
    lines = tuple(
        (str(index), int(sizes[index]), score.precision, score.recall, score.f1) for index, score in enumerate(single)
    )
    classes = Table(
        (Column("class"), Column("labels", "count"), *columns),
        lines[:_MAX_ROWS],
        "By class",
        left_out=max(0, len(lines) - _MAX_ROWS),
    )
    return Section(key, title, (text,), tables=(averages, classes))


def accuracy_by_class(boosted: BoostedRun) -> Section:
    """Section 6: the diagonal of the confusion matrix by round."""
    key, title = "class-accuracy", "Accuracy of each class over iterations"
    if not boosted.matrices:
        return empty(key, title, _why_no_classes(boosted, "accuracy by class"))
    steps = sorted(boosted.matrices)
    shares = np.array([scores.recall_by_class(boosted.matrices[step]) for step in steps])
    text = "The share of the labels of each class that is predicted correctly: the diagonal of the confusion matrix."
    return Section(key, title, (text,), (Chart(figures.class_accuracy(steps, shares)),))


def roc(boosted: BoostedRun) -> Section:
    """Section 7: the ROC curve and the area under it."""
    key, title = "roc", "ROC curve and AUC"
    if boosted.last is None or not boosted.is_classifier:
        return empty(key, title, _why_no_classes(boosted, "ROC curve"))
    curves = boosted.curves()
    if not curves:
        return empty(key, title, _why_no_curve(boosted))
    text = (
        "The area under the curve is the probability that a sample of the class has a higher score than another sample."
    )
    if len(curves) > 1:
        text += " Each class is compared with all others; micro averages over all classes."
    return Section(key, title, (text,), (Chart(figures.roc(curves), width="half"),))


def residuals(boosted: BoostedRun) -> Section:
    """Section 8: the residuals of a regression at the last round."""
    key, title, last = "residuals", "Distribution of residuals at the last step", boosted.last
    if last is None or boosted.model.kind != "regression" or last.predictions.ndim > 1:
        return empty(key, title, _why_no_numbers(boosted, "residuals"))
    errors = trees.residuals(last)
    figure = figures.distribution(errors, x="label − prediction", has_zero=True)
    return Section(key, title, (_residual_text(errors, last),), (Chart(figure),))


def error_by_label(boosted: BoostedRun) -> Section:
    """Section 9: the absolute error of a regression by label and round."""
    key, title = "error-by-label", "Absolute validation error per label bin over iterations"
    if boosted.last is None or boosted.model.kind != "regression" or boosted.last.predictions.ndim > 1:
        return empty(key, title, _why_no_numbers(boosted, "errors by label"))
    steps, errors, edges = boosted.errors_by_bin()
    text = f"The mean absolute error by round for {max(0, len(edges) - 1)} label bins of equal width."
    return Section(key, title, (text, *_bin_text(errors, edges)), (Chart(figures.error_by_bin(steps, errors, edges)),))


def introduction(boosted: BoostedRun) -> tuple[str, ...]:
    """The paragraphs before the sections: the kind of model, and its hyperparameters."""
    model = boosted.model
    parts = [f"This is {_KINDS[model.kind]}"]
    parts.append(f"with the objective {model.objective}" if model.objective else "according to its labels")
    if model.framework:
        parts.append(f"trained by {model.framework}")
    text = ", ".join(parts) + "."
    if model.kind == "ranking":
        text += " Sections on classes and residuals do not apply to rankings."
    note = (_TRAINING_SET,) if boosted.is_of_training_set else ()
    return (text, *note, *_hyperparameter_text(model.hyperparameters))


def _hyperparameter_text(settings: Mapping[str, Any]) -> tuple[str, ...]:
    shown = [f"{name} {_setting(settings[name])}" for name in _SETTINGS if settings.get(name) not in (None, "", 0)]
    if not shown:
        return ()
    left = len([name for name in settings if name not in _SETTINGS and name != "objective"])
    more = f"; {left} more were captured" if left else ""
    return (f"Hyperparameters: {', '.join(shown)}{more}.",)


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " and ".join(map(str, value))
    return significant(value) if isinstance(value, float) else str(value)


def _class_text(counts: Floats, dataset: str) -> str:
    sizes = {index: int(count) for index, count in enumerate(counts) if count}
    text = f"{int(counts.sum()):,} labels{dataset} in {len(sizes)} class{'es' * (len(sizes) != 1)}"
    if len(sizes) < 2:
        return f"{text}."
    large, small = max(sizes, key=lambda index: sizes[index]), min(sizes, key=lambda index: sizes[index])
    ratio = sizes[large] / sizes[small]
    if ratio < _BALANCED:
        return f"{text} of similar size."
    return f"{text}; the largest ({large}) has {significant(ratio)} times as many labels as the smallest ({small})."


def _importance_text(importances: Mapping[str, Mapping[str, float]]) -> list[str]:
    text = [
        "Importances of one kind add up to 100 %. Weight is the number of splits, gain the improvement by a split, "
        "cover the number of samples at a split; total is the sum over all splits, otherwise the mean."
    ]
    for kind, values in importances.items():
        known = [(name, value) for name, value in values.items() if value == value and value > 0]
        if kind in ("gain", "total_gain") and len(known) > 1 and known[0][1] > 0.5:
            text.append(
                f"{known[0][0]} has {percent(known[0][1])} of the {kind.replace('_', ' ')}: check "
                "that it is available at "
                "prediction time and does not leak the label."
            )
    return text


def _confusion_text(matrix: Floats) -> str:
    share = float(np.trace(matrix) / matrix.sum())
    text = f"{percent(share)} of {int(matrix.sum()):,} samples are predicted correctly."
    errors = matrix - np.diag(np.diag(matrix))
    if not errors.any():
        return text
    label, predicted = np.unravel_index(int(errors.argmax()), errors.shape)
    count = int(errors[label, predicted])
    return (
        f"{text} The most frequent error: class {label} predicted as class {predicted}, "
        f"{'once' if count == 1 else f'{count:,} times'}."
    )


def _residual_text(errors: Floats, last: trees.LabeledPredictions) -> str:
    if not errors.size:
        return "No residual is finite."
    bias, deviation = float(errors.mean()), float(errors.std())
    text = f"At round {last.step:,} the mean residual is {significant(bias)}, the mean absolute error "
    text += f"{significant(np.abs(errors).mean())}, "
    text += f"the standard deviation {significant(deviation)}."
    if abs(bias) > deviation / 4:
        text += " Predictions are too low on average." if bias > 0 else " Predictions are too high on average."
    left = last.labels.size - errors.size
    return text + (f" {left:,} non-finite residuals are left out." if left else "")


def _bin_text(errors: Floats, edges: Floats) -> tuple[str, ...]:
    if not errors.size or not np.isfinite(errors[-1]).any():
        return ()
    worst = int(np.nanargmax(errors[-1]))
    error, low, high = errors[-1][worst], edges[worst], edges[worst + 1]
    return (
        f"At the last round the error is largest for labels from {significant(low)} to {significant(high)}: "
        f"{significant(error)} on average.",
    )


def _why_no_classes(boosted: BoostedRun, what: str) -> str:
    if boosted.model.kind in ("regression", "ranking"):
        return f"A {boosted.model.kind} has no classes and therefore no {what}."
    if boosted.last is not None:
        return f"There is no {what}: the labels are not classes, or there are too many of them."
    return _NO_SAMPLES


def _why_no_curve(boosted: BoostedRun) -> str:
    if boosted.last is not None and boosted.last.predictions.ndim == 1 and boosted.model.kind == "multiclass":
        return "The predictions are classes without scores (multi:softmax); multi:softprob adds scores."
    return "A ROC curve needs labels of at least two classes."


def _why_no_numbers(boosted: BoostedRun, what: str) -> str:
    if boosted.is_classifier:
        return f"A classification has no {what}; see the sections above."
    if boosted.model.kind == "ranking":
        return f"A ranking has no {what}."
    if boosted.last is not None:
        return f"This model makes several predictions per sample and therefore has no {what}."
    return _NO_SAMPLES


SECTIONS: Final[Mapping[str, Callable[[BoostedRun], Section]]] = {
    "label-distribution": labels,
    "loss": loss,
    "feature-importance": feature_importance,
    "confusion-matrix": confusion,
    "evaluation": evaluation,
    "class-accuracy": accuracy_by_class,
    "roc": roc,
    "residuals": residuals,
    "error-by-label": error_by_label,
}
"""The sections by their keys, in the order of the report."""
