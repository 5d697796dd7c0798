"""The rule validation_mismatch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.records.formatting import listed, significant
from leadline.records.formatting import share as percent
from leadline.rules import Advice, Clear, Fired, Needs, Rule, Severity, TensorNeed, Undecided, Verdict, Window
from leadline.rules.messages import fired
from leadline.rules.tensors.evaluated_sets import DataOfWorker, FeatureSpread, LabelledEvaluation

if TYPE_CHECKING:
    from leadline.rules.losses.class_counts import Counts

_FIRST_STEPS: Final = 6
_EVERY: Final = 50
_EVAL_STEPS: Final = 200
_MIN_SAMPLES: Final = 64
_IMAGES: Final = (3.0, 0.9)
"""The factor of the standard deviations of channels that is no other light, and the share of the channels."""
_FEATURES: Final = (10.0, 0.5)
"""The same of features, which may differ between times and places."""
_MIN_LABELS: Final = 50
"""The labels, or samples, of an evaluation that is compared as a whole."""
_LABELS_OF_CLASS: Final = 10
_KNOWN: Final = 0.7
"""The share of the labels that a model must have predicted, in training and under another order of the classes."""
_GAIN: Final = 0.3
"""The least share of the labels that the other order must add."""
_MIN_BATCHES: Final = 5
"""Training batches of which at least half of the classes must occur in each: elsewhere they come in another order."""
_ABSENT: Final = 0.1
"""The share of the labels of an evaluation, of classes that training does not know, from which on they are named."""
_EXPECTED: Final = 14.0
"""Of so many labels that are expected of a class one at least occurs, but for one time in a million."""
_NAMED: Final = 5
_RENEWED: Final = 0.1
"""The share of other samples from which on a validation set differs."""
_NORMALIZED: Final = Advice(
    "the same normalization for both sets, with the numbers of the training set; usually a transform or a scaler is "
    "applied to one of the two, or with other numbers"
)
_ORDERED: Final = Advice(
    "one table from names to classes for both sets; usually the classes of each set are numbered in the order in which "
    "its files or names were found"
)
_SINGLE: Final = Advice("{split_of_sorted}")


class ValidationMismatch(Rule, frozen=True, kw_only=True):
    """Fires when validation data do not fit the training's: other units, another order of classes, a single class.

    Why it matters:
        The validation metrics then say nothing of the model: they are bad, or good, for a reason of the data.
    How it decides:
        Compares, at train steps, the training (its first 6 steps and every 50th) with the first 200 eval steps whose
        loss was computed. Fires if, over at least 64 samples of each, the first input of the model that a train step
        calls first has another mean or spread in the latest evaluation than at the latest captured train step: the
        standard deviations differ by a factor of at least 3, or the means by 3 times the larger one, in 90 % of the
        channels of images; of other inputs by 10 in half of the features that are not constant. Fires, once an
        evaluation of at least 50 labels, and 10 for each class, is over, if it knows the classes by other numbers: each
        class is predicted mostly as one class of its own, with these the accuracy would be at least 0.7 and higher by
        0.3 or more, and the accuracy at the latest captured train step is at least 0.7, too. Fires if all labels of a
        whole evaluation, at least 50, are of one class, and those of the training are not; and if classes with a tenth
        of the labels of an evaluation have no label of at least 5 captured training batches, of which each has half of
        the classes or more, and in which 14 of each were expected. At the end of a run it
        remarks that a tenth of the samples of the latest whole evaluation, at least 50 and as many as in the one
        before, were not in that one.
    Not a number:
        Inputs with NaN or infinity are skipped.
    Blind spots:
        Smaller differences, such as the means of another data set, and whole numbers, such as tokens. Only inputs and
        losses that have the same names in both. Evaluations without a loss, and those after the last train step for
        what needs a whole evaluation. Data of another time or place may differ as much, and validation on one class, or
        on classes that are not trained, may be meant (novelties, a task after the other). Of Keras, models with several
        losses or a ``test_step`` of their own.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("rising_validation_loss", "generalization_gap")

    def needs(self) -> Needs:
        spreads = TensorNeed(
            "inputs", regex="_input_0$", statistics=("unit_mean", "unit_std", "abs_max"), modes=("train",)
        )
        labels = TensorNeed("labels", statistics=("class_counts", "confusion"), modes=("train",), is_optional=True)
        samples = replace(spreads, statistics=(*spreads.statistics, "fingerprints"), is_optional=True)
        return Needs(
            (
                replace(spreads, end=_FIRST_STEPS),
                replace(spreads, every=_EVERY),
                replace(labels, end=_FIRST_STEPS),
                replace(labels, every=_EVERY),
                replace(samples, modes=("eval",), end=_EVAL_STEPS),
                replace(labels, modes=("eval",), end=_EVAL_STEPS),
                TensorNeed("losses", statistics=("value",), modes=("eval",), end=_EVAL_STEPS, is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, DataOfWorker]:
        known: dict[str, DataOfWorker] = memory or {}
        evaluated = {reading.worker: reading.mode_step for reading in window.readings("value") if window.mode == "eval"}
        for reading in sorted(window.readings("abs_max"), key=lambda reading: reading.order):
            data = known.setdefault(reading.worker, DataOfWorker())
            if window.mode == "train" and not data.input:
                data.input = reading.tensor
        if window.mode == "train":
            vectors = [*window.vectors("unit_mean"), *window.vectors("class_counts")]
            for worker in {vector.worker for vector in vectors}:
                known.setdefault(worker, DataOfWorker()).train(window, worker)
        for worker, mode_step in evaluated.items():
            known.setdefault(worker, DataOfWorker()).evaluate(window, worker, mode_step)
        for (worker, name), spread in FeatureSpread.of_inputs(window):
            data = known[worker]
            if name != data.input:
                continue
            if window.mode == "train":
                data.trained = spread if spread.samples >= _MIN_SAMPLES else spread.joined(data.trained)
            elif worker in evaluated:
                data.evaluated = spread.joined(data.evaluated)
        return known

    def evaluate(self, window: Window) -> Verdict:
        if window.mode != "train":
            return Undecided("evaluations are compared at the next captured train step")
        known: dict[str, DataOfWorker] = window.memory
        is_compared = False
        for worker, data in known.items():
            trained, evaluated = data.trained, data.evaluated
            if trained is not None and evaluated is not None and _can_be_compared(trained, evaluated):
                is_compared = True
                if (finding := _spread_finding(worker, data.input, trained, evaluated)) is not None:
                    return finding
            for evaluation in data.ended[-1:]:
                finding = (
                    _order_finding(worker, data, evaluation)
                    or _single_class(worker, data, evaluation)
                    or _absent_classes(worker, data, evaluation)
                )
                if finding is not None:
                    return finding
                is_compared = is_compared or bool(evaluation.counts.keys() & data.counts.keys())
        if not is_compared:
            return Undecided("no evaluation with a loss was captured whose inputs or labels can be compared")
        remarks = [remark for data in known.values() if (remark := _remark(data))]
        return Clear({"remarks": remarks[:1]})


def _can_be_compared(trained: FeatureSpread, evaluated: FeatureSpread) -> bool:
    has_enough = min(trained.samples, evaluated.samples) >= _MIN_SAMPLES
    return has_enough and trained.mean.shape == evaluated.mean.shape


def _spread_finding(worker: str, name: str, trained: FeatureSpread, evaluated: FeatureSpread) -> Fired | None:
    """Return the finding on an input of another mean or spread than in training."""
    import numpy as np

    factor, least = _IMAGES if trained.are_images else _FEATURES
    varying = trained.is_varying() & evaluated.is_varying()
    if not varying.any():
        return None
    one, other = trained.std()[varying], evaluated.std()[varying]
    ratios = np.maximum(one / other, other / one)
    offsets = abs(trained.mean - evaluated.mean)[varying] / np.maximum(one, other)
    deviating = (ratios >= factor) | (offsets >= factor)
    if deviating.mean() < least:
        return None
    worst = int(np.where(deviating, np.maximum(ratios, offsets), 0).argmax())
    feature = int(varying.nonzero()[0][worst])
    noun = "channel" if trained.are_images else "feature"
    found = fired(
        f"{name}: {int(deviating.sum()):,} of {len(one):,} {noun}s of the validation are of another size than in "
        f"training; {noun} {feature} has mean {significant(evaluated.mean[feature])} and standard deviation "
        f"{significant(other[worst])} there, {significant(trained.mean[feature])} and {significant(one[worst])} in "
        "training",
        name,
        advice=_NORMALIZED,
        evidence={
            "deviating": int(deviating.sum()),
            "features": len(one),
            "factor": factor,
            "training_samples": trained.samples,
            "evaluated_samples": evaluated.samples,
        },
        worker=worker,
    )
    return replace(found, product={"remarks": []})


def _order_finding(worker: str, data: DataOfWorker, evaluation: LabelledEvaluation) -> Fired | None:
    """Return the finding on labels that stand for other classes than in training."""
    for name, matrix in evaluation.matrices.items():
        in_training = data.matrices.get(name)
        if in_training is None or _accuracy(in_training) < _KNOWN:
            continue
        rows = matrix.sum(axis=1)
        known = rows.nonzero()[0]
        predicted = matrix[known].argmax(axis=1)
        if matrix.sum() < _MIN_LABELS or rows[known].min() < _LABELS_OF_CLASS:
            continue
        best = float(matrix[known].max(axis=1).sum() / matrix.sum())
        accuracy = _accuracy(matrix)
        if len(set(predicted.tolist())) < len(known) or best < _KNOWN or best - accuracy < _GAIN:
            continue
        moved = [(int(label), int(as_class)) for label, as_class in zip(known, predicted, strict=True)]
        label, as_class = next((label, as_class) for label, as_class in moved if label != as_class)
        found = fired(
            f"{name}: the validation accuracy is {significant(accuracy)}, and would be {significant(best)} if each "
            f"label were the class that is mostly predicted for it ({label} is predicted as {as_class}), as if the "
            "classes were numbered in another order than in training",
            name,
            advice=_ORDERED,
            evidence={"accuracy": accuracy, "accuracy_in_best_order": best, "labels": float(matrix.sum())},
            worker=worker,
        )
        return replace(found, product={"remarks": []})
    return None


def _accuracy(matrix: Counts) -> float:
    return float(matrix.trace() / max(matrix.sum(), 1.0))


def _single_class(worker: str, data: DataOfWorker, evaluation: LabelledEvaluation) -> Fired | None:
    """Return the finding on an evaluation whose labels are all of one class."""
    if not evaluation.is_complete(_EVAL_STEPS):
        return None
    for name, counts in evaluation.counts.items():
        trained = data.counts.get(name)
        if counts.sum() < _MIN_LABELS or (counts > 0).sum() != 1 or trained is None or (trained > 0).sum() < 2:
            continue
        found = fired(
            f"{name}: all {counts.sum():,.0f} labels of the validation are of class {int(counts.argmax())}, and those "
            f"of the training of {int((trained > 0).sum()):,} classes",
            name,
            advice=_SINGLE,
            evidence={"labels": float(counts.sum()), "training_classes": int((trained > 0).sum())},
            worker=worker,
        )
        return replace(found, product={"remarks": []})
    return None


def _absent_classes(worker: str, data: DataOfWorker, evaluation: LabelledEvaluation) -> Fired | None:
    """Return the finding on classes that occur in an evaluation, and not in training though its batches are mixed."""
    import numpy as np

    for name, counts in evaluation.counts.items():
        trained = data.counts.get(name)
        if trained is None or data.batches < _MIN_BATCHES or counts.sum() < _MIN_LABELS:
            continue
        if 2 * data.fewest[name] < max(2, int((trained > 0).sum())):
            continue
        known = np.zeros(len(counts))
        known[: len(trained)] = trained[: len(counts)]
        shares = counts / counts.sum()
        absent = ((known == 0) & (shares * trained.sum() >= _EXPECTED)).nonzero()[0]
        if shares[absent].sum() < _ABSENT:
            continue
        named = [str(at) for at in absent[:_NAMED]]
        more = [f"{len(absent) - _NAMED} others"] if len(absent) > _NAMED else []
        found = fired(
            f"{name}: {counts[absent].sum():,.0f} of {counts.sum():,.0f} labels of the validation are of "
            f"{'class' if len(absent) == 1 else 'the classes'} {listed([*named, *more])}, and none of "
            f"{trained.sum():,.0f} labels of the training that were captured",
            name,
            advice=_SINGLE,
            evidence={
                "labels": float(counts[absent].sum()),
                "validation_labels": float(counts.sum()),
                "training_labels": float(trained.sum()),
            },
            worker=worker,
        )
        return replace(found, product={"remarks": []})
    return None


def _remark(data: DataOfWorker) -> str:
    """Return the remark on samples that differ between the latest two evaluations; empty: none."""
    if len(data.ended) < 2 or not all(evaluation.is_complete(_EVAL_STEPS) for evaluation in data.ended):
        return ""
    before, latest = (evaluation.samples for evaluation in data.ended)
    renewed = (latest - before).total()
    is_known = before.total() == latest.total() >= _MIN_LABELS
    if not is_known or renewed < _RENEWED * latest.total():
        return ""
    return (
        f"{percent(renewed / latest.total())} of the {latest.total():,} samples of an evaluation were not in the one "
        "before: metrics of evaluations on other samples, or on samples that are augmented again, differ by chance, too"
    )
