"""The XGBoost report: nine sections on a booster, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.analysis import scores, trees
from leadline.analysis.boosted_run import Boosted
from leadline.analysis.fit_summary import fit_words
from leadline.reports.section import Chapter, Chart, Column, Section, Table, empty
from leadline.statistics import boosting

if TYPE_CHECKING:
    from leadline.analysis.scores import Floats
    from leadline.reader.run import Run

HOW: Final = "leadline run --rule create_xgboost_report … captures labels and predictions every 5 rounds"
_NO_ANSWERS: Final = f"Labels and predictions of samples were not captured; {HOW}, of the data that is evaluated."
_LEARNED: Final = (
    "Labels and predictions are those of the training set, since there is no other: they say what was learned by "
    "heart, and nothing of new data."
)
_ONLY_METRICS: Final = (
    "No metric of this training is a loss, which falls: what is drawn is usually better the higher it is."
)
_KINDS: Final = {
    "binary": "a binary classification",
    "multiclass": "a classification into several classes",
    "regression": "a regression",
    "ranking": "a ranking",
    "other": "a model of a kind of its own",
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
"""The settings that the report tells, in this order; the others are left to the run."""
_MOST_ROWS: Final = 30
_ALIKE: Final = 1.05
"""Ratio of the largest class to the smallest below which all are called alike."""


def is_of_trees(run: Run) -> bool:
    """Whether a run is a training of boosted trees, and has this report."""
    return trees.is_of_trees(run)


def chapter(run: Run) -> Chapter:
    """The nine sections, each with what there is to see, or one line that says why there is nothing.

    Raises:
        DamagedRunError: Labels or predictions cannot be read.
    """
    boosted = Boosted(run)
    sections = tuple(section(boosted, key) for key in SECTIONS)
    return Chapter("xgboost", "Boosted trees", sections, opening(boosted))


def section(boosted: Boosted, key: str) -> Section:
    """One of the sections.

    Raises:
        KeyError: There is none of that key.
        DamagedRunError: Labels or predictions cannot be read.
    """
    return SECTIONS[key](boosted)


def labels(boosted: Boosted) -> Section:
    """1: How the true labels are distributed."""
    key, title, last = "label-distribution", "Distribution of true labels", boosted.last
    if last is None and boosted.matrix is None:
        return empty(key, title, _NO_ANSWERS)
    from leadline.figures import trees as figures

    where = f" of the set {boosted.model.evaluated_on}" if boosted.model.evaluated_on else ""
    if last is not None and not boosted.is_classifier:
        finite = last.labels[np.isfinite(last.labels)].astype(np.float64)
        words = f"{last.labels.size:,} labels{where}"
        if finite.size:
            low, mid, high = np.percentile(finite, (0, 50, 100)).tolist()
            words += f", from {low:.4g} to {high:.4g}, half of them below {mid:.4g}"
        return Section(
            key, title, (f"{words}.",), (Chart(figures.spread(last.labels, title="", x="label (its own unit)")),)
        )
    counts = boosting.class_counts(last.labels) if last is not None else _rows(boosted.matrix)
    return Section(key, title, (_classes_words(counts, where),), (Chart(figures.class_sizes(counts, title="")),))


def _rows(matrix: Floats | None) -> Floats:
    """Labels by class, as a confusion matrix has them."""
    return np.zeros(0) if matrix is None else np.asarray(matrix.sum(axis=1))


def loss(boosted: Boosted) -> Section:
    """2: The loss against the rounds, and what it says of the fit."""
    key, title = "loss", "Loss against step"
    names = {each.name for each in boosted.losses}
    metrics = [each for each in trees.losses(boosted.run, "metrics") if each.name not in names]
    if not boosted.losses and not metrics:
        return empty(key, title, "No loss was captured: give the booster an evaluation set (evals, eval_set).")
    words = fit_words(boosted.losses) if boosted.losses else [_ONLY_METRICS]
    charts = [*_curves(boosted.losses, "Loss"), *_curves(metrics, "Metric", marks_best=False)]
    return Section(key, title, tuple(words), tuple(charts))


def _curves(found: list[trees.Loss], what: str, *, marks_best: bool = True) -> list[Chart]:
    """A chart for each loss or metric, with all sets: each has a scale of its own."""
    from leadline.figures import trees as figures
    from leadline.figures.theme import plain

    stems = list(dict.fromkeys(each.stem for each in found))
    return [
        Chart(
            figures.losses(
                [each for each in found if each.stem == stem],
                title=f"{what} {plain(stem, 40)}",
                marks_best=marks_best,
            ),
            width="full" if len(stems) == 1 and marks_best else "half",
        )
        for stem in stems
    ]


def feature_importance(boosted: Boosted) -> Section:
    """3: Which features the trees lean on."""
    key, title = "feature-importance", "Feature importance"
    if not boosted.importances:
        return empty(key, title, "No feature importance was captured (a linear booster has none).")
    from leadline.figures import trees as figures

    charts = tuple(
        Chart(figures.importance(values, kind=kind), width="half") for kind, values in boosted.importances.items()
    )
    return Section(key, title, (*_importance_words(boosted.importances),), charts)


def confusion(boosted: Boosted) -> Section:
    """4: Which class is taken for which."""
    key, title = "confusion-matrix", "Confusion matrix"
    if boosted.matrix is None:
        return empty(key, title, _why_no_classes(boosted, "confusion matrix"))
    from leadline.figures import trees as figures

    figure = figures.confusion(boosted.matrix, title=f"Round {max(boosted.matrices):,}")
    return Section(key, title, (_mistakes_words(boosted.matrix),), (Chart(figure, width="half"),))


def evaluation(boosted: Boosted) -> Section:
    """5: Precision, recall and F1."""
    key, title = "evaluation", "Evaluation of the confusion matrix"
    if boosted.matrix is None:
        return empty(key, title, _why_no_classes(boosted, "precision, recall or F1"))
    words = (
        "Micro counts all samples alike (and is the accuracy), macro all classes, weighted all classes by their "
        "labels. A ratio whose denominator is 0 counts as 0."
    )
    means = scores.averages(boosted.matrix)
    rows = tuple((name, each.precision, each.recall, each.f1) for name, each in means.items())
    heads = (Column("precision"), Column("recall"), Column("F1"))
    averages = Table((Column("average"), *heads), rows, "Averages")
    single = scores.by_class(boosted.matrix)
    sizes = boosted.matrix.sum(axis=1)
    lines = tuple((str(at), int(sizes[at]), each.precision, each.recall, each.f1) for at, each in enumerate(single))
    classes = Table(
        (Column("class"), Column("labels", "count"), *heads),
        lines[:_MOST_ROWS],
        "By class",
        left_out=max(0, len(lines) - _MOST_ROWS),
    )
    return Section(key, title, (words,), tables=(averages, classes))


def accuracy_by_class(boosted: Boosted) -> Section:
    """6: The diagonal of the confusion matrix over the rounds."""
    key, title = "class-accuracy", "Accuracy of each class over iterations"
    if not boosted.matrices:
        return empty(key, title, _why_no_classes(boosted, "accuracy by class"))
    from leadline.figures import trees as figures

    steps = sorted(boosted.matrices)
    shares = np.array([scores.recognized(boosted.matrices[step]) for step in steps])
    words = "Of the labels of each class the share that is predicted as it: the diagonal of the confusion matrix."
    return Section(key, title, (words,), (Chart(figures.class_accuracy(steps, shares, title="")),))


def roc(boosted: Boosted) -> Section:
    """7: The ROC curve and the area below it."""
    key, title = "roc", "ROC curve and AUC"
    if boosted.last is None or not boosted.is_classifier:
        return empty(key, title, _why_no_classes(boosted, "ROC curve"))
    curves = boosted.curves()
    if not curves:
        return empty(key, title, _why_no_curve(boosted))
    from leadline.figures import trees as figures

    words = (
        "The area under the curve is the chance that a sample of the class gets a higher score than one that is not."
    )
    if len(curves) > 1:
        words += " Each class is held against all others; micro takes all these decisions together."
    return Section(key, title, (words,), (Chart(figures.roc(curves, title=""), width="half"),))


def residuals(boosted: Boosted) -> Section:
    """8: By how much a regression is off at the last round."""
    key, title, last = "residuals", "Distribution of residuals at the last step", boosted.last
    if last is None or boosted.model.kind != "regression" or last.predictions.ndim > 1:
        return empty(key, title, _why_no_numbers(boosted, "residuals"))
    from leadline.figures import trees as figures

    rest = trees.residuals(last)
    figure = figures.spread(rest, title="", x="label − prediction (unit of the label)", has_zero=True)
    return Section(key, title, (_residual_words(rest, last),), (Chart(figure),))


def error_by_label(boosted: Boosted) -> Section:
    """9: Where on the scale of the labels a regression is off, over the rounds."""
    key, title = "error-by-label", "Absolute validation error per label bin over iterations"
    if boosted.last is None or boosted.model.kind != "regression" or boosted.last.predictions.ndim > 1:
        return empty(key, title, _why_no_numbers(boosted, "errors by label"))
    from leadline.figures import trees as figures

    steps, errors, edges = boosted.errors_by_bin()
    words = f"The labels in {max(0, len(edges) - 1)} bins of equal width; of each the mean absolute error by round."
    return Section(
        key, title, (words, *_bins_words(errors, edges)), (Chart(figures.error_by_bin(steps, errors, edges, title="")),)
    )


def opening(boosted: Boosted) -> tuple[str, ...]:
    """What is to be known before the sections: the kind of model, and its settings."""
    model = boosted.model
    parts = [f"This is {_KINDS[model.kind]}"]
    parts.append(f"with the objective {model.objective}" if model.objective else "by its labels and predictions")
    if model.framework:
        parts.append(f"trained by {model.framework}")
    words = ", ".join(parts) + "."
    if model.kind == "ranking":
        words += " Rankings have losses and importances; sections on classes and residuals do not apply."
    learned = (_LEARNED,) if boosted.is_of_training_set else ()
    return (words, *learned, *_settings_words(model.hyperparameters))


def _settings_words(settings: Mapping[str, Any]) -> tuple[str, ...]:
    told = [f"{name} {_setting(settings[name])}" for name in _SETTINGS if settings.get(name) not in (None, "", 0)]
    if not told:
        return ()
    left = len([name for name in settings if name not in _SETTINGS and name != "objective"])
    more = f"; {left} more are captured as hyperparameters" if left else ""
    return (f"Hyperparameters: {', '.join(told)}{more}.",)


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " and ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _classes_words(counts: Floats, where: str) -> str:
    sizes = {at: int(each) for at, each in enumerate(counts) if each}
    words = f"{int(counts.sum()):,} labels{where} in {len(sizes)} class{'es' * (len(sizes) != 1)}"
    if len(sizes) < 2:
        return f"{words}."
    large, small = max(sizes, key=lambda at: sizes[at]), min(sizes, key=lambda at: sizes[at])
    ratio = sizes[large] / sizes[small]
    if ratio < _ALIKE:
        return f"{words} of about the same size."
    return f"{words}; the largest, {large}, has {ratio:.3g} times the labels of the smallest, {small}."


def _importance_words(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    words = [
        "Shares of one kind are 100 % together. Weight counts splits, gain is what a split improves, cover how "
        "many samples pass it; total is the sum over all splits, without it the mean."
    ]
    for kind, values in found.items():
        known = [(name, each) for name, each in values.items() if each == each and each > 0]
        if kind in ("gain", "total_gain") and len(known) > 1 and known[0][1] > 0.5:
            words.append(
                f"By {kind.replace('_', ' ')} {known[0][0]} has {known[0][1]:.0%}: is it known when it counts?"
            )
    return words


def _mistakes_words(matrix: Floats) -> str:
    share = float(np.trace(matrix) / matrix.sum())
    words = f"{share:.1%} of {int(matrix.sum()):,} samples are on the diagonal, predicted as what they are."
    beside = matrix - np.diag(np.diag(matrix))
    if not beside.any():
        return words
    label, predicted = np.unravel_index(int(beside.argmax()), beside.shape)
    count = int(beside[label, predicted])
    return (
        f"{words} The most frequent mistake: class {label} taken for class {predicted}, "
        f"{'once' if count == 1 else f'{count:,} times'}."
    )


def _residual_words(rest: Floats, last: trees.Answers) -> str:
    if not rest.size:
        return "No residual is finite."
    bias, spread = float(rest.mean()), float(rest.std())
    words = f"At round {last.step:,} the mean residual is {bias:.4g}, the mean absolute one {np.abs(rest).mean():.4g}, "
    words += f"the standard deviation {spread:.4g}."
    if abs(bias) > spread / 4:
        words += " Predictions are too low on the whole." if bias > 0 else " Predictions are too high on the whole."
    left = last.labels.size - rest.size
    return words + (f" {left:,} that are not finite are left out." if left else "")


def _bins_words(errors: Floats, edges: Floats) -> tuple[str, ...]:
    if not errors.size or not np.isfinite(errors[-1]).any():
        return ()
    worst = int(np.nanargmax(errors[-1]))
    error, low, high = errors[-1][worst], edges[worst], edges[worst + 1]
    return (f"At the last round labels from {low:.4g} to {high:.4g} are off most, by {error:.4g} on average.",)


def _why_no_classes(boosted: Boosted, what: str) -> str:
    if boosted.model.kind in ("regression", "ranking"):
        return f"A {boosted.model.kind} has no classes, and so no {what}."
    if boosted.last is not None:
        return f"There is no {what}: the labels are no classes, or too many."
    return _NO_ANSWERS


def _why_no_curve(boosted: Boosted) -> str:
    if boosted.last is not None and boosted.last.predictions.ndim == 1 and boosted.model.kind == "multiclass":
        return (
            "The predictions are classes without scores (multi:softmax); multi:softprob has the same model, and scores."
        )
    return "The labels are all of one class: a curve needs two."


def _why_no_numbers(boosted: Boosted, what: str) -> str:
    if boosted.is_classifier:
        return f"A classification has no {what}; the sections above say how it errs."
    if boosted.model.kind == "ranking":
        return f"A ranking has no {what}."
    if boosted.last is not None:
        return f"This model has several predictions a sample, and no {what} of one."
    return _NO_ANSWERS


SECTIONS: Final[Mapping[str, Callable[[Boosted], Section]]] = {
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
