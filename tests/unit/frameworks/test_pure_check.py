"""The probes on a step that is a pure function: a linear model, and what may be wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from leadline.frameworks.check import outcome
from leadline.frameworks.check.learning import judge_exchange
from leadline.frameworks.check.outcome import NotRepeatableError, not_applicable
from leadline.frameworks.pure_check.batch import PureBatch
from leadline.frameworks.pure_check.constant import constant_loss
from leadline.frameworks.pure_check.probes import PureCheck
from leadline.frameworks.pure_check.pure_step import Array, Computed, Leaf
from leadline.instrumentation.check import TimeLimit
from leadline.records.check_result import PROBES

SAMPLES = 16


class Linear:
    """A linear model with a squared error, with one mistake or none."""

    mode: Literal["evaluation", "training"] = "evaluation"
    number, optimizer, is_adaptive, is_warming_up, tolerance, separator = 2, "SGD", False, False, 1e-4, "/"

    def __init__(self, mistake: str = "", deadline: float = 0.0, *, keeps: bool = False) -> None:
        self.keeps = keeps
        random = np.random.default_rng(1)
        self.mistake, self.deadline = mistake, deadline or time.monotonic() + 60
        x = random.standard_normal((SAMPLES, 4))
        y = x @ np.array([1.0, -2.0, 0.5, 1.5]) + 0.1 * np.sin(9 * x[:, 0])
        self.leaves: Sequence[Leaf] = [Leaf(0, "x", x), Leaf(1, "y", y)]
        self.weights: Sequence[Array] = [
            random.standard_normal((4, 1)),
            np.zeros((1, 1)),
            random.standard_normal((4, 2)),
        ]
        self.weights = self.weights if mistake == "unused weight" else self.weights[:2]
        self.names = ["w", "b", "unused"][: len(self.weights)]
        self.rate = 9.0 if mistake == "rate" else 0.05

    def compute(
        self,
        given: Mapping[int, Array] | None = None,
        *,
        weights: Sequence[Array] | None = None,
        evaluates: bool = False,
        seed: int | None = None,
        gradients: bool = False,
    ) -> Computed:
        x, y = [(given or {}).get(leaf.key, leaf.value) for leaf in self.leaves]
        w, b, *rest = self.weights if weights is None else weights
        x = x * np.array([1, 1, 1, 0]) if self.mistake == "feature" else x
        made = (x - x.mean(0) if self.mistake == "mixed" else x) @ w + b
        made = made + np.arange(SAMPLES)[:, None] / SAMPLES if self.mistake == "place" else made
        error = made[:, 0] - y
        sign = -1.0 if self.mistake == "sign" else 1.0
        found = [2 * sign * x.T @ error[:, None] / SAMPLES, np.full((1, 1), 2 * sign * error.mean())]
        found += [np.zeros_like(each) for each in rest]
        return Computed(float(sign * np.square(error).mean()), [made], found if gradients else [])

    def layers(self, given: Mapping[int, Array]) -> Sequence[tuple[str, Array]]:
        return [("dense", self.compute(given).predictions[0])]

    def used_gradients(self) -> Sequence[Array | None] | None:
        sign = -1 if self.mistake == "negated" else 1
        return [sign * each for each in self.compute(gradients=True).gradients if each is not None]

    def own_optimizer(self) -> Any:
        return Descent(self)

    def input_gradient(self, key: int) -> Array | None:
        w = self.weights[0][:, 0] * (np.array([1, 1, 1, 0]) if self.mistake == "feature" else 1)
        return np.tile(w, (SAMPLES, 1))

    def why_mixed(self) -> str:
        return ""

    def keeps_samples(self, size: int) -> bool:
        return self.keeps

    def why_padding_is_read(self) -> str:
        return ""

    def test_modes(self) -> outcome.Tested:
        return not_applicable("it has one mode")

    test_state = test_parts = test_modes


class Descent:
    """Gradient descent on copies."""

    def __init__(self, step: Linear) -> None:
        self.step, self.weights = step, step.weights

    def advance(self, seed: int | None) -> tuple[float, Sequence[Array]]:
        computed = self.step.compute(weights=self.weights, gradients=True)
        pairs = zip(self.weights, computed.gradients, strict=True)
        self.weights = [weight - self.step.rate * each for weight, each in pairs if each is not None]
        return computed.loss, self.weights


def results(make: Callable[[float], Any], seconds: float = 60.0) -> dict[str, Any]:
    check = PureCheck(make, 2)
    check.start(list(PROBES), TimeLimit.of_order(seconds))
    found = check.results(waits=True)
    assert found is not None
    assert [result.probe for result in found] == list(PROBES)
    return {result.probe: result for result in found}


def failures(mistake: str) -> set[str]:
    found = results(lambda deadline: Linear(mistake, deadline))
    return {probe for probe, result in found.items() if result.outcome == "failed"}


@pytest.mark.parametrize(
    ("mistake", "probe"),
    [
        ("mixed", "mixed_samples"),
        ("place", "mixed_samples"),
        ("feature", "unused_inputs"),
        ("unused weight", "unused_inputs"),
        ("sign", "loss_direction"),
        ("rate", "update_size"),
        ("negated", "update_size"),
    ],
)
def test_a_mistake_is_named_by_its_probe(mistake: str, probe: str) -> None:
    assert probe in failures(mistake)


def test_a_model_that_keeps_values_of_its_samples_may_treat_places_differently() -> None:
    found = results(lambda deadline: Linear("place", deadline, keeps=True))
    assert found["mixed_samples"].outcome == "passed"


def test_a_sound_step_passes_what_applies() -> None:
    found = results(lambda deadline: Linear("", deadline))
    assert {result.outcome for result in found.values()} == {"passed", "not applicable"}
    assert sum(result.outcome == "passed" for result in found.values()) == 7


def test_weights_and_batch_stay_as_they_are() -> None:
    step = Linear()
    before = [value.copy() for value in (*step.weights, *(leaf.value for leaf in step.leaves))]
    results(lambda deadline: step)
    after = [*step.weights, *(leaf.value for leaf in step.leaves)]
    assert all(np.array_equal(first, last) for first, last in zip(before, after, strict=True))


def test_a_step_that_cannot_be_repeated_says_why() -> None:
    def make(deadline: float) -> Any:
        raise NotRepeatableError("it cannot")

    assert {result.message for result in results(make).values()} == {"it cannot"}


def test_probes_after_the_time_limit_are_not_made() -> None:
    def make(deadline: float) -> Any:
        return Linear("", deadline)

    assert {result.outcome for result in results(make, 0.0).values()} == {"not applicable"}


def test_the_arrays_are_told_apart_by_what_they_change() -> None:
    batch = PureBatch(Linear())
    assert ([leaf.name for leaf in batch.inputs], [leaf.name for leaf in batch.labels]) == (["x"], ["y"])


def test_the_best_constant_of_a_squared_error_is_the_variance() -> None:
    batch = PureBatch(Linear())
    found = constant_loss(batch, batch.base.loss)
    assert found == pytest.approx(batch.labels[0].value.var())
    assert constant_loss(batch, batch.base.loss + 1) is None


@pytest.mark.parametrize(
    ("first", "learned", "exchanged", "told"),
    [
        (1.0, 0.4, 0.4, "failed"),
        (1.0, 0.4, 0.412, "failed"),
        (1.0, 0.4, 0.4121, "passed"),
        (1.0, 0.004, 0.008, "passed"),
        (1.0, 1.0, 1.0, "not applicable"),
    ],
)
def test_exchanged_inputs_must_raise_the_loss(first: float, learned: float, exchanged: float, told: str) -> None:
    assert judge_exchange(first, learned, exchanged, learned).outcome == told
