"""What the arrays of a step are: inputs, labels and predictions, with one axis of samples."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from leadline.frameworks.check.positions import MIN_SHIFTED, SHIFTS
from leadline.frameworks.check.samples import IGNORED
from leadline.frameworks.pure_check.pure_step import Array, Computed, Leaf, PureStep

_NOISE: Final = 0.1
"""Of the spread of a weight."""


class TokenSequences:
    """Tokens whose labels are the same ones at a later position.

    Attributes:
        shift: By how many positions the labels are ahead of the tokens.
        length: The number of positions of the tokens.
        labels: The leaf with the labels; the tokens themselves if the script makes the labels of them.
    """

    def __init__(self, tokens: Leaf, labels: Leaf, shift: int) -> None:
        self.tokens, self.labels, self.shift = tokens, labels, shift
        self.length = tokens.value.shape[1]


class PureBatch:
    """The batch of a step.

    Attributes:
        size: The number of samples, along the first axis; 0: it is not known.
        inputs: What the predictions depend on.
        labels: What only the loss depends on.
    """

    def __init__(self, step: PureStep) -> None:
        self.step = step
        self.base = step.compute(evaluates=True)
        self._shaken = shaken(step, 1)  # of weights that are all 0 nothing has an influence
        self._of_shaken = step.compute(weights=self._shaken, evaluates=True)
        arrays = [leaf for leaf in step.leaves if leaf.value.ndim]
        self.size = _size(arrays)
        self.inputs: list[Leaf] = []
        self.labels: list[Leaf] = []
        for leaf in arrays:
            role = leaf.role or self._role(leaf)
            if role == "input":
                self.inputs.append(leaf)
            elif role == "label":
                self.labels.append(leaf)
        self.has_weights = any(leaf.role == "weight" for leaf in arrays)

    def _role(self, leaf: Leaf) -> str:
        """Return what a leaf is, by what changes if its samples are exchanged."""
        if not self.has_samples(leaf):
            return ""
        before = self._of_shaken
        after = self.step.compute({leaf.key: _other(leaf.value)}, weights=self._shaken, evaluates=True)
        if any(not np.array_equal(a, b) for a, b in zip(before.predictions, after.predictions, strict=False)):
            return "input"
        return "label" if after.loss != before.loss else ""

    def has_samples(self, leaf: Leaf) -> bool:
        """Whether the first axis of a leaf is that of the samples."""
        return self.size > 1 and leaf.value.ndim > 0 and leaf.value.shape[0] == self.size

    def predictions_of(self, computed: Computed) -> list[Array]:
        """Return the predictions that have an element for each sample, as float64, ``(samples * n, …)``."""
        return [
            value.astype(np.float64)
            for value in computed.predictions
            if _is_float(value) and value.ndim and self.size > 1 and not value.shape[0] % self.size and value.size > 1
        ]

    def rows(self, computed: Computed) -> Array | None:
        """Return the elements of each sample of the first prediction, ``(samples, elements)``; None: there is none."""
        found = [value for value in self.predictions_of(computed) if value.shape != (self.size, self.size)]
        return found[0].reshape(self.size, -1) if found else None

    @cached_property
    def compares_all(self) -> bool:
        """Whether predictions compare each sample with all others."""
        found = self.predictions_of(self.base)
        return bool(found) and all(value.shape == (self.size, self.size) for value in found)

    def exchanged(self, chosen: Sequence[int] | Array, *, labels: bool = False) -> dict[int, Array]:
        """Return the inputs, and the labels, with the samples of these indices."""
        items = [*self.inputs, *(self.labels if labels else ())]
        return {leaf.key: leaf.value[np.asarray(chosen)] for leaf in items if self.has_samples(leaf)}

    @cached_property
    def sequences(self) -> TokenSequences | None:
        """The sequences whose labels are their own later elements; None: there are none."""
        tokens = [leaf for leaf in self.inputs if _is_tokens(leaf.value) and self.has_samples(leaf)]
        for leaf in tokens:
            for other in self.labels:
                for shift in SHIFTS:
                    if _agrees(leaf.value, other.value, shift):
                        return TokenSequences(leaf, other, shift)
        if len(tokens) == 1 and not self.labels and not self.has_weights:
            return self._of_one_array(tokens[0])
        return None

    def _of_one_array(self, tokens: Leaf) -> TokenSequences | None:
        """Return the sequences if the loss takes its labels from the tokens: predictions end one position earlier."""
        length = tokens.value.shape[1]
        predictions = self.predictions_of(self.base)
        is_shorter = bool(predictions) and any(
            value.ndim == 3 and value.shape[1] == length - 1 and value.shape[2] > int(tokens.value.max())
            for value in predictions[:1]
        )
        return TokenSequences(tokens, tokens, 1) if is_shorter else None


def shaken(step: PureStep, sign: int) -> list[Array]:
    """Return the weights of a step with some noise, which is added or subtracted."""
    random = np.random.default_rng(7)
    return [
        (weight + sign * _NOISE * (float(weight.std()) or 1.0) * random.standard_normal(weight.shape)).astype(
            weight.dtype
        )
        for weight in step.weights
    ]


def seconds_left(step: PureStep) -> float:
    """Return the time that is left for all probes, in seconds."""
    return step.deadline - time.monotonic()


def _size(arrays: Sequence[Leaf]) -> int:
    sizes = Counter(leaf.value.shape[0] for leaf in arrays if leaf.value.shape[0] > 1)
    inputs = [leaf for leaf in arrays if leaf.role == "input"]
    if inputs:
        return int(inputs[0].value.shape[0]) if inputs[0].value.shape[0] > 1 else 0
    return sizes.most_common(1)[0][0] if sizes else 0


def _other(value: Array) -> Array:
    """Return the samples in another order; of equal samples the elements, and of equal elements other ones."""
    rolled = np.roll(value, 1, 0)
    if not np.array_equal(rolled, value):
        return rolled
    flipped: Array = np.flip(value.reshape(len(value), -1), 1).reshape(value.shape)
    if not np.array_equal(flipped, value):
        return flipped
    return ~value if value.dtype == np.bool_ else (np.where(value > 0, value - 1, value + 1)).astype(value.dtype)


def _is_float(value: Array) -> bool:
    return bool(np.issubdtype(value.dtype, np.floating))


def _is_tokens(value: Array) -> bool:
    return bool(value.ndim == 2 and min(value.shape) > 1 and np.issubdtype(value.dtype, np.integer))


def _agrees(tokens: Array, labels: Array, shift: int) -> bool:
    """Whether labels are the tokens ``shift`` positions later, as far as they are not ignored."""
    samples, length = tokens.shape
    if length <= shift + 2 or not np.issubdtype(labels.dtype, np.integer):
        return False
    for labelled in (length, length - 1):
        if labels.size != samples * labelled:
            continue
        placed = labels.reshape(samples, labelled)
        compared = min(labelled, length - shift)
        ahead, named = tokens[:, shift : shift + compared], placed[:, :compared]
        is_real = named != IGNORED
        if int(is_real.sum()) < 2 or float(ahead[is_real].std()) == 0:
            return False
        return bool((ahead == named)[is_real].mean() >= MIN_SHIFTED)
    return False


def other_samples(batch: PureBatch, seed: int) -> Array:
    """Return for each sample another one, with other labels where there is one, ``(samples,)``."""
    rows = [leaf.value.reshape(batch.size, -1) for leaf in batch.labels if batch.has_samples(leaf)]
    order = np.random.default_rng(seed).permutation(batch.size)
    chosen = np.roll(order, 1)[np.argsort(order)]
    for sample in range(batch.size):
        differ = np.any([(row != row[sample]).any(1) for row in rows], axis=0)[order]
        if differ.any():
            chosen[sample] = order[differ][sample % int(differ.sum())]
    return chosen


def changed_tokens(sequences: TokenSequences, positions: Sequence[int]) -> Mapping[int, Array]:
    """Return the tokens with those at some positions taken from other sequences, or other positions."""
    tokens = sequences.tokens.value
    changed, other = tokens.copy(), np.roll(tokens, 1, 0)
    for position in positions:
        there = other[:, position]
        if np.array_equal(changed[:, position], there):
            there = tokens[:, (position + 1) % tokens.shape[1]]
        changed[:, position] = there
    return {sequences.tokens.key: changed}
