"""The probes of inputs and weights that the loss does not depend on, and of what the model is given."""

from __future__ import annotations

import numpy as np

from leadline.frameworks.check.influence import (
    MIN_FEATURES,
    all_used,
    dead_features,
    ignored_inputs,
    is_expert,
    unused_parameters,
)
from leadline.frameworks.check.learning import UNUSED_LOSS
from leadline.frameworks.check.model_inputs import Given, judge_inputs
from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.pure_check.batch import PureBatch, shaken
from leadline.frameworks.pure_check.learning import Learning
from leadline.frameworks.pure_check.pure_step import Array, Leaf

_ADVICE = "use the layer in the call, and return what it computes; stop_gradient, numpy and argmax cut it off"


def unused_inputs(learning: Learning) -> Tested:
    """Exchange each input among the samples, and look at the gradients of features and weights."""
    batch, step = learning.batch, learning.step
    if not any(gradient is not None for gradient in learning.gradients):
        return failed(UNUSED_LOSS, _ADVICE)
    unused = _unused_weights(learning)
    if unused:
        total = sum(weight.size for weight in step.weights)
        names = [step.names[at] for at in unused]
        return unused_parameters(names, sum(step.weights[at].size for at in unused) / total, _ADVICE)
    inputs = [leaf for leaf in batch.inputs if batch.has_samples(leaf)]
    ignored = [leaf.name for leaf in inputs if _is_ignored(batch, leaf)]
    if ignored:
        return ignored_inputs(ignored)
    for leaf in inputs:
        features = _dead_features(learning, leaf)
        if features:
            return dead_features(leaf.name, features, leaf.value.shape[-1], _noun(leaf))
    return all_used(len(inputs), len(step.weights))


def _unused_weights(learning: Learning) -> list[int]:
    """Return the matrices whose gradient is nothing but 0, at the weights of the step and at others near them."""
    step = learning.step

    def still(gradients: object) -> set[int]:
        assert isinstance(gradients, (list, tuple))
        return {at for at, gradient in enumerate(gradients) if gradient is None or not gradient.any()}

    found = still(list(learning.gradients))
    found = {at for at in found if step.weights[at].ndim >= 2 and not is_expert(step.names[at], step.separator)}
    if not found:
        return []
    for sign in (1, -1):
        found &= still(list(step.compute(weights=shaken(step, sign), gradients=True).gradients))
    return sorted(found)


def _is_ignored(batch: PureBatch, leaf: Leaf) -> bool:
    """Whether an input of other samples in half of the batch leaves the loss and the predictions as they are."""
    if bool(((leaf.value == 0) | (leaf.value == 1)).all()):
        return False  # of a mask, padding_influence tells more
    value = leaf.value.copy()
    half = batch.size // 2
    value[:half] = leaf.value[half : 2 * half]
    if np.array_equal(value, leaf.value):
        return False
    before, after = batch.step.compute(), batch.step.compute({leaf.key: value})
    same = all(np.array_equal(a, b) for a, b in zip(before.predictions, after.predictions, strict=False))
    return before.loss == after.loss and same


def _dead_features(learning: Learning, leaf: Leaf) -> list[int]:
    """Return the features, or channels of images, for which the gradient is 0 in every sample."""
    value = leaf.value
    if not np.issubdtype(value.dtype, np.floating) or value.ndim not in (2, 3, 4) or value.shape[-1] < MIN_FEATURES:
        return []
    gradient = learning.step.input_gradient(leaf.key)
    if gradient is None or gradient.shape != value.shape:
        return []
    total = np.abs(gradient).reshape(-1, value.shape[-1]).sum(0)
    flat = value.reshape(-1, value.shape[-1])
    dead = [int(at) for at in np.nonzero((total == 0) & (flat.max(0) > flat.min(0)))[0]]
    return dead if len(dead) < value.shape[-1] else []


def _noun(leaf: Leaf) -> str:
    return "channel" if leaf.value.ndim >= 4 else "feature"


def model_inputs(batch: PureBatch) -> Tested:
    """Look at the inputs of the model: finite, not constant, not repeated; and show the first samples."""

    def given(leaf: Leaf) -> Given:
        axis = 0 if batch.has_samples(leaf) else None
        value: Array = leaf.value
        kind = str(value.dtype)
        if np.issubdtype(value.dtype, np.floating) or kind == "bfloat16":
            value = value.astype(np.float32) if value.dtype.itemsize < 4 else value
        return Given(leaf.name, value, kind, axis, 1, value.ndim - 1, leaf.is_scaled_later)

    return judge_inputs(list(map(given, batch.inputs)), list(map(given, batch.labels)), batch.size)
