"""metric_not_improving: constant metrics at the level of guessing, that level, and the direction of a metric."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.metric_not_improving import MetricNotImproving
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts


def judge(name: str, value: Callable[[int], float], labels: list[Part] | None = None, steps: int = 300) -> Verdict:
    noise = random.Random(0)
    infos = {name: TensorInfo(name, ("losses" if "output" in name else "metrics",), ())}
    parts = [
        Capture(step, {name: {"value": value(step) + 0.01 * noise.gauss(0, 1)}}, infos=infos) for step in range(steps)
    ]
    return verdicts(MetricNotImproving(), [*(labels or []), *parts])[-1][1]


def counted(*counts: float) -> list[Part]:
    infos = {"CrossEntropyLoss_input_1": TensorInfo("CrossEntropyLoss_input_1", ("labels",), (8,), "int64")}
    return [ArrayStatistics(0, {"CrossEntropyLoss_input_1": {"class_counts": list(counts)}}, infos=infos)]


def spread(variance: float) -> list[Part]:
    infos = {"MSELoss_input_1": TensorInfo("MSELoss_input_1", ("labels",), (8,))}
    return [Capture(0, {"MSELoss_input_1": {"variance": variance}}, infos=infos)]


@pytest.mark.parametrize("name", ["accuracy", "val_f1", "loss", "perplexity", "episode_reward", "rmse"])
def test_a_constant_metric_fires_and_an_improving_one_does_not(name: str) -> None:
    sign = -1 if name in ("loss", "perplexity", "rmse") else 1
    assert isinstance(judge(name, lambda step: 1.0), Fired)
    assert judge(name, lambda step: 1.0 + sign * 0.001 * step) == Clear()
    assert isinstance(judge(name, lambda step: 1.0 - sign * 0.001 * step), Fired)


def test_a_metric_that_converged_to_a_better_level_is_clear() -> None:
    assert judge("accuracy", lambda step: 0.1 if step < 60 else 0.9) == Clear()


def test_the_level_of_a_classifier_comes_from_its_labels() -> None:
    labels = counted(30, 10)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    fired = judge("CrossEntropyLoss_output_0", lambda step: entropy, labels)
    assert isinstance(fired, Fired)
    assert fired.evidence["trivial"] == pytest.approx(entropy)
    assert judge("CrossEntropyLoss_output_0", lambda step: entropy - 0.1, labels) == Clear()
    fired = judge("accuracy", lambda step: 0.74, labels)
    assert isinstance(fired, Fired)
    assert fired.evidence["trivial"] == 0.75
    assert judge("accuracy", lambda step: 0.8, labels) == Clear()


def test_the_level_of_a_regression_is_the_variance_of_its_labels() -> None:
    assert isinstance(judge("MSELoss_output_0", lambda step: 4.0, spread(4.0)), Fired)
    assert judge("MSELoss_output_0", lambda step: 3.9, spread(4.0)) == Clear()


def test_a_metric_without_a_direction_is_not_evaluated() -> None:
    assert isinstance(judge("temperature", lambda step: 1.0), Undecided)


@pytest.mark.parametrize(("evaluations", "verdict"), [(1, Undecided), (2, Fired)])
def test_the_values_of_one_evaluation_are_not_enough(evaluations: int, verdict: type[Verdict]) -> None:
    infos = {"accuracy": TensorInfo("accuracy", ("metrics",), ()), "Adam/lr": TensorInfo("Adam/lr", ("metrics",), ())}
    parts: list[Capture] = []
    for evaluation in range(evaluations):
        parts.append(Capture(len(parts), {"Adam/lr": {"value": 1.0}}, mode_step=evaluation, infos=infos))
        start = len(parts)
        parts += [
            Capture(start + index, {"accuracy": {"value": 0.5}}, mode="eval", mode_step=start + index, infos=infos)
            for index in range(300)
        ]
    assert isinstance(verdicts(MetricNotImproving(), parts)[-1][1], verdict)


def test_the_level_of_a_negative_log_likelihood_is_the_entropy_of_its_labels() -> None:
    infos = {"nll_loss_input_1": TensorInfo("nll_loss_input_1", ("labels",), (8,), "int64")}
    labels: list[Part] = [ArrayStatistics(0, {"nll_loss_input_1": {"class_counts": [20.0, 20.0]}}, infos=infos)]
    fired = judge("nll_loss_output_0", lambda step: math.log(2), labels)
    assert isinstance(fired, Fired)
    assert fired.evidence["trivial"] == pytest.approx(math.log(2))
    assert judge("nll_loss_output_0", lambda step: 0.5, labels) == Clear()


def test_undecided_without_enough_values() -> None:
    assert isinstance(judge("accuracy", lambda step: 0.5, steps=199), Undecided)
    assert isinstance(judge("accuracy", lambda step: 0.5, steps=200), Fired)
    assert isinstance(judge("accuracy", lambda step: math.nan), Undecided)


def test_invalid_parameters_are_rejected() -> None:
    for value in (0.0, 1.0):
        with pytest.raises(ConfigurationError, match="metric_not_improving: p must be"):
            MetricNotImproving(p=value)
