"""What a training of boosted trees shows of its model: kind, answers, errors, importances, losses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.errors import NotCapturedError
from leadline.records.loss_roles import Role, role_of
from leadline.records.names import FEATURE_IMPORTANCE
from leadline.records.series import SeriesLayout
from leadline.statistics import boosting
from leadline.statistics.boosting import Kind
from leadline.store import layout
from leadline.store.documents import read_document

if TYPE_CHECKING:
    from leadline.reader.run import Run

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

FRAMEWORKS: Final = ("xgboost", "lightgbm")
IMPORTANCES: Final = ("weight", "gain", "cover", "total_gain", "total_cover", "split")
"""Kinds of importance in the order in which they are shown."""
MOST_STEPS: Final = 100
"""So many captured rounds are looked at over the training."""
_FIRST_WORKERS: Final = 4
_LABELS: Final = "labels"
_PREDICTIONS: Final = "predictions"
_IMPORTANCE: Final = re.compile(rf"^{FEATURE_IMPORTANCE}/([^/]+)/(.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BoostedModel:
    """What is known of a booster."""

    framework: str
    """As the worker tells it: ``xgboost 3.2.0``; "" where nobody does."""
    objective: str | None
    kind: Kind
    evaluated_on: str | None
    """The name of the set whose labels and predictions were captured."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    """Rounds at which labels and predictions are both there, ascending."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Labels and predictions of one round."""

    step: int
    labels: Array
    """``(samples,)``."""
    predictions: Array
    """``(samples,)``, or ``(samples, classes)``."""

    @property
    def has_scores(self) -> bool:
        """Whether there is a number for each class, or one that says how likely the class 1 is."""
        return self.predictions.ndim > 1 or len(np.unique(self.predictions)) > 2


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss (or metric) of a set, over the rounds."""

    name: str
    role: Role
    stem: str
    """Its name without the set's: ``rmse``."""
    steps: npt.NDArray[np.int64]
    values: Floats


def is_of_trees(run: Run) -> bool:
    """Whether a run is a training of boosted trees."""
    told = (str(each.get("framework", "")) for each in run.worker_documents().values())
    return any(each.startswith(FRAMEWORKS) for each in told) or bool(run.tensor_names(collection=FEATURE_IMPORTANCE))


def trains_trees(path: str) -> bool:
    """Whether the first workers of a run say that they train boosted trees; a quick look, of a run of any size."""
    try:
        names = sorted(os.listdir(os.path.join(path, layout.WORKERS)))[:_FIRST_WORKERS]
    except FileNotFoundError:
        return False
    documents = (read_document(os.path.join(path, layout.WORKERS, each)) for each in names)
    return any(str((each or {}).get("framework", "")).startswith(FRAMEWORKS) for each in documents)


def read_model(run: Run) -> BoostedModel:
    """What kind of model a run trains: by its objective, else by its labels and predictions."""
    documents = [
        each for each in run.worker_documents().values() if str(each.get("framework", "")).startswith(FRAMEWORKS)
    ]
    first = documents[0] if documents else {}
    settings = dict(first.get("hyperparameters") or {})
    objective = settings.get("objective")
    objective = str(objective) if objective else None
    steps = _steps(run)
    last = read_answers(run, steps[-1]) if steps else None
    kind = boosting.kind_of(objective, *((last.labels, last.predictions) if last else ()))
    evaluated_on = first.get("evaluated_on")
    return BoostedModel(
        str(first.get("framework", "")), objective, kind, str(evaluated_on) if evaluated_on else None, settings, steps
    )


def read_answers(run: Run, step: int) -> Answers | None:
    """Labels and predictions of one round; None where they do not belong together.

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
    return Answers(step, labels, predictions) if len(labels) == len(predictions) and len(labels) else None


def chosen_steps(model: BoostedModel, most: int = MOST_STEPS) -> tuple[int, ...]:
    """The rounds that are looked at over the training: the first, the last and evenly between."""
    steps = model.steps
    if len(steps) <= most:
        return steps
    return tuple(steps[each] for each in np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int)))


def matrix_of(found: Answers, objective: str | None) -> Floats | None:
    """The confusion matrix of a round; None where classes are too many or none."""
    classes = found.predictions.shape[1] if found.predictions.ndim > 1 else None
    return boosting.confusion(found.labels, boosting.predicted_classes(found.predictions, objective), classes)


def matrices(
    run: Run, model: BoostedModel, most: int = MOST_STEPS, *, known: dict[int, Floats | None] | None = None
) -> dict[int, Floats]:
    """Confusion matrices by round: of labels and predictions, else as they were counted during the training.

    Shape:
        Each ``(classes, classes)``, rows are labels, columns predictions; of as many classes in every round.
    Args:
        known: Those that were made before; more are added to it.
    """
    known = {} if known is None else known
    for step in chosen_steps(model, most):
        if step not in known:
            found = read_answers(run, step)
            known[step] = matrix_of(found, model.objective) if found is not None else None
    told = {step: each for step in chosen_steps(model, most) if (each := known[step]) is not None}
    told = told or _counted(run, most)
    size = max(map(len, told.values()), default=0)
    return {step: _sized(each, size) for step, each in told.items()}


def _counted(run: Run, most: int) -> dict[int, Floats]:
    if (_LABELS, "confusion") not in run.archive.vectors:
        return {}
    counted = run.tensor(_LABELS)
    steps = sorted({each.step for each in run.archive.vectors[_LABELS, "confusion"]})
    return {step: counted.statistic_array("confusion", step) for step in steps[:: max(1, len(steps) // most)]}


def importances(run: Run, step: int | None = None) -> dict[str, dict[str, float]]:
    """Importances by kind and feature, the largest first.

    Units:
        Shares: those of one kind are 1 together.
    Args:
        step: The round; None: the last at which they were captured.
    """
    shelves = [(shelf, _importance_columns(shelf.layout)) for shelf in run.archive.shelves.values()]
    rows = [
        (at, row, columns)
        for shelf, columns in shelves
        if columns
        for batch in shelf.batches
        for at, row in zip(np.asarray(batch.columns["step"]).tolist(), batch.columns["values"], strict=True)
    ]
    last = max((at for at, _, _ in rows), default=-1) if step is None else step
    found: dict[str, dict[str, float]] = {}
    for at, row, columns in rows:
        if at == last:
            for place, kind, feature in columns:
                found.setdefault(kind, {})[feature] = float(row[place])
    return {kind: _descending(found[kind]) for kind in sorted(found, key=_kind_order)}


def _importance_columns(series: SeriesLayout) -> list[tuple[int, str, str]]:
    """Where importances stand in the rows of a layout: place, kind and feature."""
    found = []
    for place, (index, _) in enumerate(series.columns):
        match = _IMPORTANCE.match(series.tensors[index].name)
        if match:
            found.append((place, match[1], match[2]))
    return found


def losses(run: Run, collection: str = "losses") -> list[Loss]:
    """The losses (or metrics) of every set over the rounds; training before validation."""
    found = []
    for name in run.tensor_names(collection=collection):
        rows = run.scalars(name)
        rows = rows.filter(pc.equal(rows["worker"], rows["worker"][0])) if len(rows) else rows
        role, stem = role_of(name, rows["mode"][0].as_py() if len(rows) else "train", run.tensor(name).collections)
        found.append(Loss(name, role, stem, rows["step"].to_numpy(), rows["value"].to_numpy()))
    return sorted(found, key=lambda each: (each.stem, each.role, each.name))


def residuals(found: Answers) -> Floats:
    """Label minus prediction of each sample; what is not finite is left out.

    Shape:
        ``(samples,)``, or fewer.
    Units:
        Those of the labels.
    """
    rest = found.labels.astype(np.float64) - found.predictions.astype(np.float64).ravel()
    return np.asarray(rest[np.isfinite(rest)])


def _steps(run: Run) -> tuple[int, ...]:
    stored = run.archive.stored
    both = {each.step for each in stored.get(_LABELS, ())} & {each.step for each in stored.get(_PREDICTIONS, ())}
    return tuple(sorted(both))


def _sized(matrix: Floats, size: int) -> Floats:
    wide = np.zeros((size, size))
    wide[: len(matrix), : len(matrix)] = matrix
    return wide


def _descending(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda each: (-each[1] if each[1] == each[1] else 0.0, each[0])))


def _kind_order(kind: str) -> tuple[int, str]:
    return (IMPORTANCES.index(kind) if kind in IMPORTANCES else len(IMPORTANCES)), kind
