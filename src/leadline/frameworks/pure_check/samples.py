"""The probes of samples, labels and positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.check.learning import UNUSED_LOSS
from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.positions import (
    MIN_LENGTH,
    NO_POSITIONS,
    NO_SEQUENCES,
    changed_positions,
    judge_positions,
)
from leadline.frameworks.check.samples import (
    ALL_EQUAL,
    COMPARES_ALL,
    DECREASE,
    NO_DESCENT,
    NO_LABELS,
    NO_PREDICTION,
    NO_SAMPLES,
    NOT_FINITE,
    OF_PLACES,
    PERMUTATIONS,
    QUARTERINGS,
    SHIFTS,
    SHOWN,
    changes_of_rows,
    exchanged_pairs,
    labels_shifted,
    moves_away,
    moves_nearer,
    other_places,
    places_matter,
    samples_apart,
    samples_mixed,
)
from leadline.frameworks.pure_check.batch import PureBatch, TokenSequences, changed_tokens
from leadline.frameworks.pure_check.learning import Learning
from leadline.frameworks.pure_check.pure_step import Array, Leaf, PureStep

_OTHER_SEED: Final = 21


def mixed_samples(batch: PureBatch) -> Tested:
    """Replace one sample by another one: the predictions of all others must stay the same.

    Then let all samples change their places: their predictions must move with them.
    """
    step = batch.step
    if why := _has_no_samples(batch):
        return not_applicable(why)
    base = batch.rows(batch.base)
    assert base is not None
    scale = float(base.std()) or 1.0
    rows_of_changes: dict[int, list[float]] = {}
    worst, pair, culprit = 0.0, (0, 0), {}
    for source, others in exchanged_pairs(batch.size):
        given = next((chosen for other in others if (chosen := _replaced(batch, source, other))), None)
        if given is None:
            continue
        rows = batch.rows(step.compute(given, evaluates=True))
        if rows is None or rows.shape != base.shape:
            return not_applicable(NO_SAMPLES)
        moved = np.abs(rows - base).max(1) / scale
        rows_of_changes[source] = moved[:SHOWN].tolist()
        moved[source] = 0.0
        if not np.isfinite(moved).all():
            return not_applicable(NOT_FINITE)
        if float(moved.max()) > worst:
            worst, pair, culprit = float(moved.max()), (source, int(moved.argmax())), given
    if not rows_of_changes:
        return not_applicable(ALL_EQUAL)
    evidence = changes_of_rows(rows_of_changes, worst)
    if worst <= step.tolerance:
        moved_places = np.array(other_places(batch.size))
        by_place = _change_by_place(batch, moved_places)
        if by_place > OF_PLACES * step.tolerance:
            given = batch.exchanged(moved_places, labels=True)
            where = _first_layer(step, given, moved_places, moved_places >= 0, bound=OF_PLACES)
            return places_matter(by_place, where, mode=step.mode, **evidence)
        return samples_apart(len(rows_of_changes), batch.size, **evidence)
    if why := step.why_mixed():
        return not_applicable(why)
    order = np.arange(batch.size)
    where = _first_layer(step, culprit, order, order != pair[0])
    return samples_mixed(pair, worst, where, mode=step.mode, **evidence)


def _change_by_place(batch: PureBatch, chosen: Array) -> float:
    """Return by how much predictions change if their samples change places, as a share of their size.

    Where places may count on purpose it is 0: a model that draws random numbers, or keeps values of each sample.

    Args:
        chosen: Which sample takes each place, ``(samples,)``.
    """
    step = batch.step
    known = {leaf.key for leaf in (*batch.inputs, *batch.labels)}
    if step.keeps_samples(batch.size) or any(batch.has_samples(leaf) and leaf.key not in known for leaf in step.leaves):
        return 0.0
    base = batch.rows(batch.base)
    drawn, moved = (
        batch.rows(step.compute(given, evaluates=True, seed=seed))
        for given, seed in (({}, _OTHER_SEED), (batch.exchanged(chosen, labels=True), None))
    )
    if base is None or drawn is None or moved is None or not np.array_equal(drawn, base):
        return 0.0
    scale = max(float(base.std()), float(np.abs(base).mean())) or 1.0
    worst = float(np.abs(moved - base[chosen]).max()) / scale
    return worst if math.isfinite(worst) else 0.0


def _has_no_samples(batch: PureBatch) -> str:
    """Return why there are no samples that could be mixed; "": there are."""
    if batch.size < 2 or not batch.inputs or not batch.predictions_of(batch.base):
        return NO_SAMPLES
    shared = next((leaf for leaf in batch.inputs if not batch.has_samples(leaf) and _connects(leaf)), None)
    if shared is not None:
        return f"{shared.name} belongs to no sample"
    if any(_is_graph(leaf, batch) for leaf in batch.inputs) and len(batch.inputs) > 1:
        return "an input seems to connect the samples, as edges do in a graph"
    return COMPARES_ALL if batch.compares_all else ""


def _replaced(batch: PureBatch, source: int, other: int) -> dict[int, Array] | None:
    """Return the inputs with one sample replaced; None: nothing changes by that."""
    chosen = np.arange(batch.size)
    chosen[source] = other
    given = batch.exchanged(chosen)
    values = {leaf.key: leaf.value for leaf in batch.inputs}
    return None if all(np.array_equal(value, values[key]) for key, value in given.items()) else given


def _connects(leaf: Leaf) -> bool:
    return bool(leaf.value.size > 1 and np.issubdtype(leaf.value.dtype, np.floating))


def _is_graph(leaf: Leaf, batch: PureBatch) -> bool:
    """Whether an input may tell which samples are connected."""
    value = leaf.value
    is_edges = not np.issubdtype(value.dtype, np.floating) and value.ndim == 2 and value.shape[0] == 2 != batch.size
    is_square = value.shape == (batch.size, batch.size) and bool((value != value.flat[0]).any())
    return is_edges or (is_square and (value.dtype == np.bool_ or np.issubdtype(value.dtype, np.floating)))


def _first_layer(step: PureStep, given: dict[int, Array], places: Array, compared: Array, *, bound: float = 1.0) -> str:
    """Return the first layer whose output for other inputs is another one.

    Args:
        places: Which sample of the step is at each place of the other inputs, ``(samples,)``.
        compared: Whether each place is looked at, ``(samples,)``.
        bound: Times the tolerance of the step, below which a difference is rounding.
    """
    size = len(places)
    for (name, first), (other, second) in zip(step.layers({}), step.layers(given), strict=False):
        if name != other or first.shape != second.shape:
            return ""
        if not first.ndim or first.shape[0] != size:
            continue
        moved = np.abs(first[places].astype(np.float64) - second).reshape(size, -1).max(1)
        if float(moved[compared].max()) > bound * step.tolerance * (float(first.std()) or 1.0):
            return name
    return ""


# --- labels ---------------------------------------------------------------------------------------------------


def loss_direction(learning: Learning) -> Tested:
    """Lower the loss by a small step: predictions must come nearer to the labels. Then try other labels."""
    step, batch = learning.step, learning.batch
    if not batch.labels:
        return not_applicable(NO_LABELS)
    if not any(gradient is not None for gradient in learning.gradients):
        return not_applicable(UNUSED_LOSS)
    if (shifted := _shifted(batch)) is not None:
        return shifted
    lowered = _lowered(step, learning.gradients, learning.first)
    if lowered is None:
        return not_applicable(NO_DESCENT)
    label = _labelled(batch)
    if label is None:
        return not_applicable(NO_PREDICTION)
    first, last = _nearness_with(batch, label, None), _nearness_with(batch, label, lowered)
    assert first is not None
    assert last is not None
    decrease = learning.first - step.compute(weights=lowered).loss
    if last >= first - 1e-9 * max(abs(first), 1.0):
        return moves_nearer(decrease)
    if not learning.is_possible():
        return not_applicable(
            "whether a small step that moves away from the labels goes on so is not known in this time"
        )
    learning.curves()
    learned = _nearness_with(batch, label, learning.weights)
    if learned is None or not learned < last:
        return moves_nearer(decrease)  # it does so in more steps than one
    return moves_away(decrease, first, last)


def _shifted(batch: PureBatch) -> Tested | None:
    """Return the failure if labels fit the inputs of the samples beside theirs better than their own."""
    labels = [leaf for leaf in batch.labels if batch.has_samples(leaf)]
    if batch.size < 4 or len(labels) != 1 or not batch.inputs or batch.has_weights:
        return None
    label, random = labels[0], np.random.default_rng(5)

    def loss_with(chosen: Array) -> float:
        return batch.step.compute({label.key: label.value[chosen]}).loss

    def others() -> list[float]:
        return [loss_with(random.permutation(batch.size)) for _ in range(PERMUTATIONS)]

    order = np.arange(batch.size)
    return labels_shifted(loss_with(order), others, {shift: loss_with(np.roll(order, shift)) for shift in SHIFTS})


def _lowered(step: PureStep, gradients: Sequence[Array | None], start: float) -> list[Array] | None:
    """Return the weights after a step along the gradient that lowers the loss a little; None: there is none."""
    square = sum(float(np.square(gradient, dtype=np.float64).sum()) for gradient in gradients if gradient is not None)
    if not square > 0 or not math.isfinite(square) or not abs(start) > 0:
        return None
    rate = DECREASE * abs(start) / square
    for _ in range(QUARTERINGS):
        weights = [
            weight if gradient is None else (weight - rate * gradient).astype(weight.dtype)
            for weight, gradient in zip(step.weights, gradients, strict=True)
        ]
        if step.compute(weights=weights).loss < start:
            return weights
        rate /= 4
    return None


def _labelled(batch: PureBatch) -> Leaf | None:
    """Return the one label that can be compared with a prediction; None: there is none."""
    predictions = batch.predictions_of(batch.base)
    varying = [leaf for leaf in batch.labels if (leaf.value != leaf.value.flat[:1]).any()]
    fitting = [leaf for leaf in varying if _nearness(predictions, leaf.value) is not None]
    is_weighted = batch.has_weights and not np.issubdtype(fitting[0].value.dtype, np.floating) if fitting else True
    others = [leaf for leaf in batch.labels if leaf.value.size == batch.size and leaf not in fitting]
    return fitting[0] if len(fitting) == 1 and not is_weighted and not others else None


def _nearness_with(batch: PureBatch, label: Leaf, weights: Sequence[Array] | None) -> float | None:
    return _nearness(batch.predictions_of(batch.step.compute(weights=weights)), label.value)


def _nearness(predictions: Sequence[Array], label: Array) -> float | None:
    """Return how near the first predictions are to labels, the higher the nearer; None: they cannot be compared."""
    if not predictions:
        return None
    prediction = predictions[0]
    if np.issubdtype(label.dtype, np.floating) or label.size == prediction.size:
        if label.size != prediction.size:
            return None
        flat, target = prediction.ravel(), label.astype(np.float64).ravel()
        values = np.unique(target)
        if len(values) == 2 and values[0] in (0, -1) and values[1] == 1:
            return float(flat[target == values[1]].mean() - flat[target == values[0]].mean())
        return -float(np.square(flat - target).mean())
    if label.dtype == np.bool_:
        return None
    if label.ndim == prediction.ndim and label.shape[-1] == 1:
        label = label[..., 0]
    if prediction.shape[:-1] != label.shape:
        return None
    is_real = (label >= 0) & (label < prediction.shape[-1])
    if not is_real.any():
        return None
    shifted = prediction - prediction.max(-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    indices = np.clip(label, 0, prediction.shape[-1] - 1)[..., None].astype(np.int64)
    return float(np.take_along_axis(log, indices, -1)[..., 0][is_real].mean())


# --- positions ------------------------------------------------------------------------------------------------


def look_ahead(batch: PureBatch) -> Tested:
    """If labels are the inputs of later positions: change inputs, and see which predictions change."""
    step, sequences = batch.step, batch.sequences
    if sequences is None:
        return not_applicable(NO_SEQUENCES)
    base = _by_position(batch, sequences, {})
    if base is None or sequences.length < MIN_LENGTH:
        return not_applicable(NO_POSITIONS)
    scale = float(base.std()) or 1.0

    def moved(positions: Sequence[int]) -> Array:
        after = _by_position(batch, sequences, changed_tokens(sequences, positions))
        assert after is not None
        change: Array = np.abs(after - base).max(1) / scale
        return change

    changes = [(position, moved([position]).tolist()) for position in changed_positions(sequences.length)]
    at = min(sequences.length, len(base)) - 1
    reach = int(moved(range(at))[at] > step.tolerance)
    return judge_positions(changes, sequences.shift, step.tolerance, reach)


def _by_position(batch: PureBatch, sequences: TokenSequences, given: Any) -> Array | None:
    """Return the elements of the first prediction at each position, ``(positions, elements)``."""
    found = batch.predictions_of(batch.step.compute(given, evaluates=True))
    for value in found:
        for length in (sequences.length, sequences.length - 1):
            if value.ndim >= 2 and value.shape[:2] == (batch.size, length):
                return np.moveaxis(value, 1, 0).reshape(length, -1)
            if value.shape[0] == batch.size * length:
                return np.moveaxis(value.reshape(batch.size, length, -1), 1, 0).reshape(length, -1)
    return None
