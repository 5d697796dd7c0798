"""The probes that learn one batch, and what a copy of the weights has learned of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from leadline.frameworks.check.learning import (
    GIVEN_INPUT,
    LEAST_STEPS,
    NO_LABELS,
    NOT_LEARNED,
    RATES,
    SEED,
    SHARE,
    UNUSED_LOSS,
    Learned,
    judge_exchange,
    judge_learning,
    steps_within,
    too_slow,
)
from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.pure_check.batch import PureBatch, other_samples, seconds_left
from leadline.frameworks.pure_check.constant import constant_loss
from leadline.frameworks.pure_check.pure_step import Array

_BETAS: Final = (0.9, 0.999)
_EPSILON: Final = 1e-8


class Learning:
    """What Adam learns of the one batch at three rates; computed when it is needed first.

    Attributes:
        first: The loss before.
        weights: The best weights so far; None: there are none.
        least: Their loss.
    """

    def __init__(self, batch: PureBatch) -> None:
        self.batch, self.step = batch, batch.step
        start = time.monotonic()
        computed = self.step.compute(gradients=True)
        self._computed = computed
        self.seconds = max(time.monotonic() - start, 1e-4)
        if self.seconds > 0.1:  # the first call may compile it
            start = time.monotonic()
            self.step.compute(gradients=True)
            self.seconds = max(time.monotonic() - start, 1e-4)
        self.first = computed.loss
        self.weights: list[Array] | None = None
        self.least = math.inf
        self._curves: dict[str, list[float]] | None = None
        self.steps = steps_within(seconds_left(self.step), self.seconds)

    @property
    def gradients(self) -> Sequence[Array | None]:
        """The gradients of the loss."""
        return self._computed.gradients

    def is_possible(self) -> bool:
        """Whether there is time for it, and something to learn."""
        has_gradients = any(gradient is not None for gradient in self.gradients)
        return has_gradients and math.isfinite(self.first) and self.steps >= LEAST_STEPS

    def curves(self) -> dict[str, list[float]]:
        """Return the losses of Adam, by its rate."""
        if self._curves is None:
            self._curves = {f"Adam at {rate:g}": self._learned(rate) for rate in RATES}
        return self._curves

    def _learned(self, rate: float) -> list[float]:
        losses: list[float] = []
        limit = time.monotonic() + SHARE / 2 * max(seconds_left(self.step), 0.0)
        weights = [np.array(weight) for weight in self.step.weights]
        adam = _Adam(weights, rate)
        for seed in range(self.steps):
            computed = self.step.compute(weights=weights, seed=seed, gradients=True)
            losses.append(computed.loss)
            if not math.isfinite(computed.loss) or time.monotonic() > limit:
                break
            if computed.loss < self.least:
                self.weights, self.least = [weight.copy() for weight in weights], computed.loss
            adam.step(computed.gradients)
        losses.append(self.step.compute(weights=weights).loss)
        return losses

    def own_curve(self) -> list[float]:
        """Return the losses of steps with the script's own optimizer; empty: they are not known."""
        own = self.step.own_optimizer()
        if own is None:
            return []
        losses: list[float] = []
        weights: Sequence[Array] = self.step.weights
        limit = time.monotonic() + SHARE / 2 * max(seconds_left(self.step), 0.0)
        for seed in range(self.steps):
            loss, weights = own.advance(seed)
            losses.append(loss)
            if not math.isfinite(loss) or time.monotonic() > limit:
                break
        losses.append(self.step.compute(weights=weights).loss)
        return losses


class _Adam:
    """Updates weights in place.

    Args:
        weights: The weights, as they are before the first step.
        rate: The learning rate.
    """

    def __init__(self, weights: list[Array], rate: float) -> None:
        self._weights, self._rate, self._count = weights, rate, 0
        self._first = [np.zeros(weight.shape, np.float32) for weight in weights]
        self._second = [np.zeros(weight.shape, np.float32) for weight in weights]

    def step(self, gradients: Sequence[Array | None]) -> None:
        """Make a step with the gradients of the weights."""
        self._count += 1
        first, second = (1 - beta**self._count for beta in _BETAS)
        for at, gradient in enumerate(gradients):
            if gradient is None:
                continue
            self._first[at] += (1 - _BETAS[0]) * (gradient - self._first[at])
            self._second[at] += (1 - _BETAS[1]) * (np.square(gradient) - self._second[at])
            scale = np.sqrt(self._second[at] / second) + _EPSILON
            change = self._rate / first * self._first[at] / scale
            self._weights[at] = (self._weights[at] - change).astype(self._weights[at].dtype)


def unlearnable_batch(learning: Learning) -> Tested:
    """Train copies of the weights on the one batch, with the script's optimizer and with Adam at three rates."""
    step, gradients = learning.step, learning.gradients
    if not any(gradient is not None for gradient in gradients):
        return failed(UNUSED_LOSS, "look for what cuts the gradient off: stop_gradient, numpy, argmax, frozen layers")
    if not math.isfinite(learning.first):
        return not_applicable("the loss is not finite")
    if learning.steps < LEAST_STEPS:
        return too_slow(learning.seconds)
    still = [
        name for name, gradient in zip(step.names, gradients, strict=True) if gradient is None or not gradient.any()
    ]
    return judge_learning(
        Learned(
            first=learning.first,
            curves=learning.curves(),
            own=learning.own_curve(),
            optimizer=step.optimizer,
            rate=step.rate,
            steps=learning.steps,
            still=still,
            parameters=len(step.weights),
            constant=constant_loss(learning.batch, learning.first),
            step=step.number,
        )
    )


def ignored_input(learning: Learning) -> Tested:
    """With weights that have learned the batch, give each sample another input: the loss must rise."""
    step, batch = learning.step, learning.batch
    if not learning.is_possible():
        return not_applicable(NOT_LEARNED)
    labels = [leaf for leaf in batch.labels if batch.has_samples(leaf)]
    if batch.size < 2 or not batch.inputs or not any((leaf.value != leaf.value[:1]).any() for leaf in labels):
        return not_applicable(NO_LABELS)
    if _takes_input(batch):
        return not_applicable(GIVEN_INPUT)
    learning.curves()
    if learning.weights is None:
        return not_applicable(NOT_LEARNED)
    learned = step.compute(weights=learning.weights, seed=SEED).loss
    exchanged = [
        step.compute(batch.exchanged(other_samples(batch, seed)), weights=learning.weights, seed=SEED).loss
        for seed in (1, 2)
    ]
    order = np.random.default_rng(3).permutation(batch.size)
    others = np.roll(order, 1)[np.argsort(order)]
    relabelled = step.compute(
        {leaf.key: leaf.value[others] for leaf in labels}, weights=learning.weights, seed=SEED
    ).loss
    return judge_exchange(learning.first, learned, max(exchanged), relabelled)


def _takes_input(batch: PureBatch) -> bool:
    """Whether an input is a label, too, as that of an autoencoder is."""
    return any(
        leaf.value.shape == other.value.shape and np.array_equal(leaf.value, other.value)
        for leaf in batch.inputs
        for other in batch.labels
    )
