"""metric_not_improving: constant metrics at the level of guessing, that level, and the direction of a metric."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from leadline.errors import ConfigurationError
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.metric_not_improving import MetricNotImproving
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts


def judge(
    name: str,
    value: Callable[[int], float],
    labels: list[Part] | None = None,
    steps: int = 300,
    *,
    from_start: bool = True,
) -> Verdict:
    noise = random.Random(0)
    infos = {name: TensorInfo(name, ("losses" if "output" in name else "metrics",), ())}
    parts = [
        Capture(step, {name: {"value": value(step) + 0.01 * noise.gauss(0, 1)}}, infos=infos) for step in range(steps)
    ]
    return verdicts(MetricNotImproving(from_start=from_start), [*(labels or []), *parts])[-1][1]


def counted(*counts: float) -> list[Part]:
    infos = {"CrossEntropyLoss_input_1": TensorInfo("CrossEntropyLoss_input_1", ("labels",), (8,), "int64")}
    return [ArrayStatistics(0, {"CrossEntropyLoss_input_1": {"class_counts": list(counts)}}, infos=infos)]


def spread(*variances: float, mean: float = 0.0, name: str = "MSELoss_input_1") -> list[Part]:
    infos = {name: TensorInfo(name, ("labels",), (8,))}
    return [
        Capture(step, {name: {"variance": variance, "mean": mean}}, infos=infos)
        for step, variance in enumerate(variances)
    ]


def known_from_the_graph(kind: LossKind, **numbers: float) -> list[Part]:
    infos = {f"call/{name}": TensorInfo(f"call/{name}", ("checks",), (), "float64") for name in (facts.KIND, *numbers)}
    values = {f"call/{name}": {"value": value} for name, value in {facts.KIND: float(kind), **numbers}.items()}
    return [Capture(0, values, infos=infos)]


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


def test_labels_that_change_with_the_model_have_no_level() -> None:
    assert isinstance(judge("MSELoss_output_0", lambda step: 4.0, spread(4.0, 4.0), from_start=False), Fired)
    assert isinstance(judge("MSELoss_output_0", lambda step: 4.0, spread(2.0, 6.0), from_start=False), Undecided)


def test_labels_that_are_all_equal_have_no_level() -> None:
    assert isinstance(judge("MSELoss_output_0", lambda step: 4.0, spread(0.0, 0.0), from_start=False), Undecided)


def test_a_loss_far_above_the_level_may_be_a_sum() -> None:
    labels = counted(20, 20)
    assert isinstance(judge("CrossEntropyLoss_output_0", lambda step: 1.4 * math.log(2), labels), Fired)
    assert judge("CrossEntropyLoss_output_0", lambda step: 3.1 * math.log(2), labels) == Clear()


def test_a_training_loss_that_became_worse_than_guessing_is_stuck() -> None:
    labels = counted(20, 20)
    worse = judge("CrossEntropyLoss_output_0", lambda step: min(1 + step / 50, 3.0) * math.log(2), labels)
    assert isinstance(worse, Fired)
    assert worse.evidence["level"] == pytest.approx(3 * math.log(2), rel=0.05)
    infos = {"CrossEntropyLoss_output_0": TensorInfo("CrossEntropyLoss_output_0", ("losses",), ())}
    validated = [
        Capture(step, {"CrossEntropyLoss_output_0": {"value": 1.0 + step / 50}}, infos=infos, mode="eval")
        for step in range(400)
    ]
    assert not any(isinstance(verdict, Fired) for _, verdict in verdicts(MetricNotImproving(), [*labels, *validated]))


def test_the_loss_of_an_adversary_may_stay_at_guessing() -> None:
    """The discriminator of a generator that plays well guesses: its loss is ln 2."""
    noise = random.Random(0)
    of_generator = spread(0.0, mean=1.0, name="BCEWithLogitsLoss_1_input_1")
    labels = [*spread(0.25, mean=0.5, name="BCEWithLogitsLoss_input_1"), *of_generator]
    names = ("BCEWithLogitsLoss_output_0", "BCEWithLogitsLoss_1_output_0")
    infos = {name: TensorInfo(name, ("losses",), ()) for name in names}
    levels = (math.log(2), 0.9)
    alone, both = (
        [
            Capture(
                step,
                {
                    name: {"value": level + 0.01 * noise.gauss(0, 1)}
                    for name, level in list(zip(names, levels, strict=True))[:count]
                },
                infos=infos,
            )
            for step in range(400)
        ]
        for count in (1, 2)
    )
    assert isinstance(verdicts(MetricNotImproving(), [*labels, *alone])[-1][1], Fired)
    assert not any(isinstance(verdict, Fired) for _, verdict in verdicts(MetricNotImproving(), [*labels, *both]))


def test_the_level_of_a_binary_loss_is_the_entropy_of_the_mean_label() -> None:
    name = "BCEWithLogitsLoss_input_1"
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    labels = spread(0.1875, mean=0.25, name=name)
    fired = judge("BCEWithLogitsLoss_output_0", lambda step: entropy, labels, from_start=False)
    assert isinstance(fired, Fired)
    assert fired.evidence["trivial"] == pytest.approx(entropy)
    assert judge("BCEWithLogitsLoss_output_0", lambda step: entropy - 0.1, labels, from_start=False) == Clear()
    constant = spread(0.0, mean=1.0, name=name)
    assert isinstance(judge("BCEWithLogitsLoss_output_0", lambda step: 0.6, constant, from_start=False), Undecided)


@pytest.mark.parametrize(
    ("facts_of_call", "level"),
    [
        (known_from_the_graph(LossKind.CATEGORICAL_CROSS_ENTROPY, softmax_size=4.0), math.log(4)),
        (known_from_the_graph(LossKind.CATEGORICAL_CROSS_ENTROPY, classes=4.0), math.log(4)),
        (known_from_the_graph(LossKind.BINARY_CROSS_ENTROPY, label_min=0.0, label_max=1.0), math.log(2)),
        (known_from_the_graph(LossKind.BINARY_CROSS_ENTROPY, label_min=1.0, label_max=1.0), None),
        (known_from_the_graph(LossKind.SQUARED_ERROR), None),
    ],
)
def test_the_level_of_the_only_loss_call_comes_from_its_classes(facts_of_call: list[Part], level: float | None) -> None:
    fired = judge("custom_output_0_loss", lambda step: level or 1.0, facts_of_call, from_start=False)
    assert isinstance(fired, Fired if level else Undecided)


def test_an_accuracy_of_a_rare_class_is_not_evaluated() -> None:
    assert judge("accuracy", lambda step: 0.9, counted(90, 10), from_start=False) == Clear()
    assert isinstance(judge("accuracy", lambda step: 0.7, counted(70, 30), from_start=False), Fired)


def test_metrics_without_a_known_level_are_not_evaluated_by_default() -> None:
    assert isinstance(judge("accuracy", lambda step: 0.5, from_start=False), Undecided)
    assert isinstance(judge("loss", lambda step: 0.5, from_start=False), Undecided)


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
    assert isinstance(verdicts(MetricNotImproving(from_start=True), parts)[-1][1], verdict)


def test_the_level_of_a_negative_log_likelihood_is_the_entropy_of_its_labels() -> None:
    infos = {"nll_loss_input_1": TensorInfo("nll_loss_input_1", ("labels",), (8,), "int64")}
    labels: list[Part] = [ArrayStatistics(0, {"nll_loss_input_1": {"class_counts": [20.0, 20.0]}}, infos=infos)]
    fired = judge("nll_loss_output_0", lambda step: math.log(2), labels)
    assert isinstance(fired, Fired)
    assert fired.evidence["trivial"] == pytest.approx(math.log(2))
    assert judge("nll_loss_output_0", lambda step: 0.5, labels) == Clear()


def test_undecided_without_enough_values() -> None:
    assert isinstance(judge("accuracy", lambda step: 0.5, steps=299), Undecided)
    assert isinstance(judge("accuracy", lambda step: 0.5, steps=300), Fired)
    assert isinstance(judge("accuracy", lambda step: math.nan), Undecided)


def test_invalid_parameters_are_rejected() -> None:
    for value in (0.0, 1.0):
        with pytest.raises(ConfigurationError, match="metric_not_improving: p must be"):
            MetricNotImproving(p=value)


def test_a_short_training_is_clear_only_if_it_is_better_than_guessing() -> None:
    labels = counted(20, 20)
    assert judge("CrossEntropyLoss_output_0", lambda step: 0.6, labels, 49).stage == "too few"
    assert judge("CrossEntropyLoss_output_0", lambda step: 0.6, labels, 50) == Clear()
    at_chance = judge("CrossEntropyLoss_output_0", lambda step: math.log(2), labels, 299)
    assert at_chance == Undecided("299 of 300 values of a metric or loss needed", stage="too few")
    worse = judge("CrossEntropyLoss_output_0", lambda step: 0.8, labels, 100)
    assert isinstance(worse, Undecided)


@pytest.mark.parametrize(
    ("ratios", "is_low"), [((1e-4, 3e-4), True), ((1e-4, 3e-3), False), ((math.nan, math.nan), False)]
)
def test_a_constant_loss_with_small_updates_needs_a_higher_learning_rate(
    ratios: tuple[float, float], is_low: bool
) -> None:
    infos = {name: TensorInfo(name, ("weights",), (8, 8), "float32") for name in ("a.weight", "b.weight")}
    values = {name: {"update_ratio": ratio} for name, ratio in zip(infos, ratios, strict=True)}
    fired = judge("loss", lambda step: 1.0, [Capture(0, values, infos=infos)])
    assert isinstance(fired, Fired)
    assert (
        "a higher learning rate: an update changes half of the weights by less than 0.0002" in fired.suggestion
    ) is (is_low)
    assert ("update_ratio" in fired.evidence) is is_low


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"2.weight": 1e-7, "0.weight": 1e-9, "3.weight": 1e-4, "4.weight": 1e-2}, ("0.weight", "2.weight")),
        ({"0.weight": 1e-9, "2.weight": 1e-3, "4.weight": 1e-2}, None),
        ({"embedding": 1e-4, "query.weight": 1e-9, "key.weight": 1e-9, "value.weight": 1e-3, "4.weight": 1e-2}, None),
        ({"0.weight": 0.0, "2.weight": 1e-7, "4.weight": 1e-2}, None),
        ({"0.weight": 1e-9, "2.weight": 1e-9}, None),
        ({"0.weight": math.nan, "2.weight": math.inf}, None),
        ({"0.bias": 1e-9, "2.bias": 1e-9, "4.weight": 1e-2}, None),
        ({}, None),
    ],
)
def test_a_constant_loss_is_explained_by_gradients_that_vanish(
    sizes: dict[str, float], named: tuple[str, ...] | None
) -> None:
    gradients = {f"gradient/{name}": {"abs_mean": size} for name, size in sizes.items()}
    infos = {
        name: TensorInfo(name, ("gradients",), (8,) if name.endswith("bias") else (8, 8), "float32")
        for name in gradients
    }
    fired = judge("loss", lambda step: 1.0, [Capture(0, gradients, infos=infos)] if gradients else [])
    assert isinstance(fired, Fired)
    if named is None:
        assert "vanish" not in fired.message
        assert fired.tensors == ("loss",)
        return
    assert "gradients vanish, from 0.01 at 4.weight to 1e-9 at 0.weight: the first 2 of 4 are below" in fired.message
    assert fired.tensors == ("loss", *(f"gradient/{name}" for name in named))
    assert (fired.evidence["smallest_gradient"], fired.evidence["largest_gradient"]) == (1e-9, 1e-2)
    assert "normalization" in fired.suggestion


@pytest.mark.parametrize("seed", range(8))
def test_a_slowly_falling_loss_is_found_stuck_once_at_most(seed: int) -> None:
    """Its improvement is about significant: without a second threshold a finding closes and opens again."""
    noise = random.Random(seed)
    infos = {"loss": TensorInfo("loss", ("losses",), ())}
    values = [2.3 - 4e-5 * step + 0.02 * noise.gauss(0, 1) for step in range(900)]
    parts = [Capture(step, {"loss": {"value": value}}, infos=infos) for step, value in enumerate(values)]
    fired = [isinstance(verdict, Fired) for _, verdict in verdicts(MetricNotImproving(from_start=True), parts)]
    openings = sum(now and not before for before, now in zip([False, *fired], fired, strict=False))
    assert openings <= 1


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [("val acc", 0.52, Fired), ("D acc", 0.52, Undecided), ("acc", 0.52, Undecided), ("val acc", 0.5, Clear)],
)
def test_of_printed_accuracies_those_of_validation_are_judged_within_their_decimals(
    name: str, value: float, verdict: type[Verdict]
) -> None:
    infos = {name: TensorInfo(name, ("metrics", "printed"), ())}
    parts = [Capture(step, {name: {"value": value}}, infos=infos) for step in range(300)]
    told = verdicts(MetricNotImproving(), [*counted(53.0, 47.0), *parts])[-1][1]
    assert isinstance(told, verdict)
