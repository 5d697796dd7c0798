"""Model data of boosted trees: kind, predictions, confusion matrices, importances, losses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.errors import NotCapturedError
from leadline.records.documents import WorkerDocument
from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.records.loss_rise import OVERFITTING_RISE, relative_rise
from leadline.records.loss_roles import Role, role_of
from leadline.records.names import FEATURE_IMPORTANCE
from leadline.records.series import SeriesLayout
from leadline.statistics import boosting
from leadline.statistics.boosting import Kind
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.run_state import document_paths

if TYPE_CHECKING:
    from leadline.reader.run import Run

_GAP: Final = 0.1
"""A validation loss this much above the training loss, relative to it, is mentioned; as in the rule ``overfit``."""
_RISE: Final = 0.02
"""Rise of the validation loss above its minimum, relative to it."""
_FALL: Final = 0.02
"""A loss is still falling if the last tenth of the rounds has at least this share of the total decrease."""
_MIN_DECREASE: Final = 0.05
"""A relative decrease of the training loss below this counts as underfitting."""
_MIN_ROUNDS: Final = 5

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

FRAMEWORKS: Final = ("xgboost", "lightgbm")
IMPORTANCES: Final = ("weight", "gain", "cover", "total_gain", "total_cover", "split")
"""Kinds of importance in display order."""
MAX_STEPS: Final = 100
"""The maximum number of captured rounds that are evaluated."""
_FIRST_WORKERS: Final = 4
_LABELS: Final = "labels"
_PREDICTIONS: Final = "predictions"
_IMPORTANCE: Final = re.compile(rf"^{FEATURE_IMPORTANCE}/([^/]+)/(.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BoostedModel:
    """A boosted model."""

    framework: str
    """From the worker document: ``xgboost 3.2.0``; "" if unknown."""
    objective: str | None
    kind: Kind
    evaluated_on: str | None
    """The name of the data set whose labels and predictions were captured."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    """Rounds with both labels and predictions, in ascending order."""


@dataclass(frozen=True, slots=True)
class LabeledPredictions:
    """Labels and predictions of one round."""

    step: int
    labels: Array
    """``(samples,)``."""
    predictions: Array
    """``(samples,)``, or ``(samples, classes)``."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss or metric of a data set, over the rounds."""

    name: str
    role: Role
    stem: str
    """The name without the data set: ``rmse``."""
    steps: npt.NDArray[np.int64]
    values: Floats

    def since(self, step: int) -> Loss:
        """Return the loss of the rounds from a step on."""
        return replace(self, steps=self.steps[self.steps >= step], values=self.values[self.steps >= step])


def is_boosted_run(run: Run) -> bool:
    """Return whether a run trains boosted trees."""
    frameworks = (document.framework for document in run.worker_documents().values())
    return any(framework.startswith(FRAMEWORKS) for framework in frameworks) or bool(
        run.tensor_names(collection=FEATURE_IMPORTANCE)
    )


def trains_trees(path: str) -> bool:
    """Return whether the first workers of a run train boosted trees; fast for runs of any size."""
    return framework_of(path).startswith(FRAMEWORKS)


def framework_of(path: str) -> str:
    """Return the framework of the first workers of a run, one that boosts trees if there is one; empty if unknown."""
    paths = list(document_paths(path, layout.WORKERS).values())[:_FIRST_WORKERS]
    names = [WorkerDocument.from_dict(read_document(path)).framework for path in paths]
    return next((name for name in names if name.startswith(FRAMEWORKS)), next(filter(None, names), ""))


def read_model(run: Run) -> BoostedModel:
    """Read the kind of model of a run, from its objective or its labels and predictions."""
    documents = run.worker_documents().values()
    first = next((document for document in documents if document.framework.startswith(FRAMEWORKS)), WorkerDocument())
    objective = first.hyperparameters.get("objective")
    objective = str(objective) if objective else None
    steps = _steps(run)
    last = read_predictions(run, steps[-1]) if steps else None
    kind = boosting.kind_of(objective, *((last.labels, last.predictions) if last else ()))
    return BoostedModel(first.framework, objective, kind, first.evaluated_on or None, first.hyperparameters, steps)


def read_predictions(run: Run, step: int) -> LabeledPredictions | None:
    """Read labels and predictions of one round; None if they are missing or do not match.

    Raises:
        DamagedRunError: They cannot be read.
    """
    try:
        labels = run.tensor(_LABELS).value(step).ravel()
        predictions = run.tensor(_PREDICTIONS).value(step)
    except NotCapturedError:
        return None
    if predictions.ndim > 1 and predictions.shape[1] == 1:
        predictions = predictions[:, 0]
    return LabeledPredictions(step, labels, predictions) if len(labels) == len(predictions) and len(labels) else None


def chosen_steps(model: BoostedModel, limit: int = MAX_STEPS) -> tuple[int, ...]:
    """Return the rounds to evaluate: the first, the last and evenly spaced ones between."""
    steps = model.steps
    if len(steps) <= limit:
        return steps
    return tuple(steps[index] for index in np.unique(np.linspace(0, len(steps) - 1, limit).round().astype(int)))


def matrix_of(predictions: LabeledPredictions, objective: str | None) -> Floats | None:
    """Compute the confusion matrix of a round; None if there are too many classes or none."""
    classes = predictions.predictions.shape[1] if predictions.predictions.ndim > 1 else None
    return boosting.confusion(
        predictions.labels, boosting.predicted_classes(predictions.predictions, objective), classes
    )


def matrices(
    run: Run, model: BoostedModel, limit: int = MAX_STEPS, *, cache: dict[int, Floats | None] | None = None
) -> dict[int, Floats]:
    """Return confusion matrices by round, from labels and predictions or as counted during the training.

    Shape:
        Each ``(classes, classes)``, rows are labels, columns predictions; the number of classes is the same for all.
    Args:
        cache: Matrices that were computed before; new ones are added.
    """
    cache = {} if cache is None else cache
    for step in chosen_steps(model, limit):
        if step not in cache:
            predictions = read_predictions(run, step)
            cache[step] = matrix_of(predictions, model.objective) if predictions is not None else None
    by_step = {step: matrix for step in chosen_steps(model, limit) if (matrix := cache[step]) is not None}
    by_step = by_step or _captured_matrices(run, limit)
    size = max(map(len, by_step.values()), default=0)
    return {step: _padded(matrix, size) for step, matrix in by_step.items()}


def _captured_matrices(run: Run, limit: int) -> dict[int, Floats]:
    if (_LABELS, "confusion") not in run.archive.vectors:
        return {}
    labels = run.tensor(_LABELS)
    steps = sorted({vector.step for vector in run.archive.vectors[_LABELS, "confusion"]})
    return {step: labels.statistic_array("confusion", step) for step in steps[:: max(1, len(steps) // limit)]}


def importances(run: Run, step: int | None = None) -> dict[str, dict[str, float]]:
    """Return importances by kind and feature, the largest first.

    Units:
        Shares, which add up to 1 for each kind.
    Args:
        step: The round; None for the last round at which they were captured.
    """
    streams = [(stream, _importance_columns(stream.layout)) for stream in run.archive.series.values()]
    rows = [
        (row_step, row, columns)
        for stream, columns in streams
        if columns
        for batches in stream.batches
        for row_step, row in zip(batches.numbers("step").tolist(), batches.numbers("values"), strict=True)
    ]
    last = max((row_step for row_step, _, _ in rows), default=-1) if step is None else step
    by_kind: dict[str, dict[str, float]] = {}
    for row_step, row, columns in rows:
        if row_step == last:
            for column, kind, feature in columns:
                by_kind.setdefault(kind, {})[feature] = float(row[column])
    return {kind: _descending(by_kind[kind]) for kind in sorted(by_kind, key=_kind_order)}


def _importance_columns(series: SeriesLayout) -> list[tuple[int, str, str]]:
    """Return the columns of a layout that contain importances: index, kind and feature."""
    columns = []
    for column, (index, _) in enumerate(series.columns):
        match = _IMPORTANCE.match(series.tensors[index].name)
        if match:
            columns.append((column, match[1], match[2]))
    return columns


def losses(run: Run, collection: str = "losses") -> list[Loss]:
    """Return the losses (or metrics) of every data set over the rounds; training before validation."""
    curves = []
    for name in run.tensor_names(collection=collection):
        rows = run.scalars(name)
        rows = rows.filter(pc.equal(rows["worker"], rows["worker"][0])) if len(rows) else rows
        role, stem = role_of(name, rows["mode"][0].as_py() if len(rows) else "train", run.tensor(name).collections)
        curves.append(Loss(name, role, stem, rows["step"].to_numpy(), rows["value"].to_numpy()))
    return sorted(curves, key=lambda curve: (curve.stem, curve.role, curve.name))


def residuals(predictions: LabeledPredictions) -> Floats:
    """Return label minus prediction of each sample; non-finite values are omitted.

    Shape:
        ``(samples,)``, or fewer.
    Units:
        Those of the labels.
    """
    differences = predictions.labels.astype(np.float64) - predictions.predictions.astype(np.float64).ravel()
    return np.asarray(differences[np.isfinite(differences)])


def _steps(run: Run) -> tuple[int, ...]:
    stored = run.archive.stored
    both = {label_tensor.step for label_tensor in stored.get(_LABELS, ())} & {
        prediction_tensor.step for prediction_tensor in stored.get(_PREDICTIONS, ())
    }
    return tuple(sorted(both))


def _padded(matrix: Floats, size: int) -> Floats:
    padded = np.zeros((size, size))
    padded[: len(matrix), : len(matrix)] = matrix
    return padded


def _descending(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda item: (-item[1] if item[1] == item[1] else 0.0, item[0])))


def _kind_order(kind: str) -> tuple[int, str]:
    return (IMPORTANCES.index(kind) if kind in IMPORTANCES else len(IMPORTANCES)), kind


def summarize_fit(losses: Sequence[Loss]) -> list[str]:
    """Return one or two sentences for each loss with training or validation values."""
    by_stem: dict[str, dict[str, list[Loss]]] = {}
    for loss in losses:
        if np.isfinite(loss.values).sum() >= _MIN_ROUNDS:
            by_stem.setdefault(loss.stem, {}).setdefault(loss.role, []).append(loss)
    texts = [
        text
        for by_role in by_stem.values()
        for text in _summarize(by_role.get("train", []), by_role.get("validation", []))
    ]
    return texts or ["Fewer than 5 rounds were captured: too few to assess the fit of the model."]


def _summarize(train: Sequence[Loss], validation: Sequence[Loss]) -> list[str]:
    if not validation:
        return [
            f"{train[0].name}: without a validation loss, overfitting cannot be detected. {_assess_training(train[0])}"
        ]
    return [_compare(train[0] if train else None, loss) for loss in validation]


def _compare(train: Loss | None, validation: Loss) -> str:
    steps, values = _finite(validation)
    best = int(values.argmin())
    rise = relative_rise(float(values[-1]), float(values[best]))
    if rise > _RISE and best < len(values) - 1:
        trained = "" if train is None else _training_since(train, int(steps[best]))
        fit = ": overfitting" if rise > OVERFITTING_RISE else ""
        return (
            f"{validation.name} reached its minimum at round {steps[best]:,} ({significant(values[best])}) "
            f"and has risen by {percent(rise)} since, to {significant(values[-1])}{trained}{fit}. "
            f"Early stopping would have kept round {steps[best]:,}."
        )
    if train is None:
        return (
            f"{validation.name} is at its minimum, {significant(values[best])}. There is no training loss "
            "to compare it with."
        )
    last = _finite(train)[1][-1]
    gap = (values[-1] - last) / max(abs(last), 1e-300)
    if gap > _GAP:
        return (
            f"{validation.name} ({significant(values[-1])}) is {_format_gap(gap)} {train.name} "
            f"({significant(last)}) and does not rise: "
            "the model fits its training set better than new data. A smaller max_depth, a larger "
            "min_child_weight or lambda, or subsample below 1 reduce the gap."
        )
    return (
        f"{validation.name} ({significant(values[-1])}) is close to {train.name} ({significant(last)}). "
        f"{_assess_training(train)}"
    )


def _assess_training(loss: Loss) -> str:
    """Return a sentence on whether more training would help."""
    _, values = _finite(loss)
    fall = values[0] - values.min()
    if fall < _MIN_DECREASE * abs(values[0]):
        return (
            f"It has decreased by only {percent(fall / max(abs(values[0]), 1e-300))} in total: "
            "underfitting, or nothing to  "
            "learn from these features. Deeper trees or a larger learning rate show which."
        )
    late = values[int(len(values) * 0.9) - 1] - values[-1]
    if late > _FALL * fall:
        return "It is still falling: more rounds or a larger learning rate would improve it (underfitting)."
    return "It has converged: no sign of overfitting or underfitting."


def _training_since(train: Loss, since: int) -> str:
    steps, values = _finite(train)
    then = values[steps <= since]
    return (
        f", while {train.name} fell from {significant(then[-1])} to {significant(values[-1])}"
        if then.size and values[-1] < then[-1]
        else ""
    )


def _format_gap(gap: float) -> str:
    return f"{percent(gap)} above" if gap < 2 else f"{significant(gap + 1)} times"


def _finite(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    known = np.isfinite(loss.values)
    return loss.steps[known], loss.values[known]
