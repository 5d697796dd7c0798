"""unscaled_input: three conditions with their bounds, pooling, and exceptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.unscaled_input import UnscaledInput
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts


def batch(
    step: int,
    means: list[float],
    stds: list[float],
    samples: int = 64,
    dtype: str = "float32",
    *,
    low: float = -1.0,
    size: float | None = None,
    layer: str = "linear_input",
    layer_dtype: str = "",
    rescaled: float = 1.0,
) -> list[Part]:
    """Return a batch of the model's input, and what the first layer is given."""
    size = max(abs(mean) + 2 * std for mean, std in zip(means, stds, strict=True)) if size is None else size
    infos = {
        "Net_input_0": TensorInfo("Net_input_0", ("inputs", "layers"), (samples, len(means)), dtype),
        "first_input_0": TensorInfo("first_input_0", ("layers", layer), (samples, len(means)), layer_dtype or dtype),
    }
    numbers = {"Net_input_0": {"min": low, "abs_max": size}, "first_input_0": {"abs_max": rescaled * size}}
    return [
        Capture(step, numbers, infos=infos),
        ArrayStatistics(step, {"Net_input_0": {"unit_mean": means, "unit_std": stds}}, infos=infos),
    ]


def labels(
    mean: float, std: float, size: float, *, loss: str = "mseloss", shape: tuple[int, ...] = (64, 1), low: float = -1.0
) -> list[Part]:
    """Return the labels of a loss call."""
    infos = {"MSELoss_input_1": TensorInfo("MSELoss_input_1", ("labels", "layers", f"{loss}_input"), shape, "float32")}
    numbers = {"mean": mean, "std": std, "min": low, "abs_max": size}
    return [Capture(0, {"MSELoss_input_1": numbers}, infos=infos)]


def regression(*calls: tuple[np.ndarray, np.ndarray], first: int = 0) -> list[Part]:
    """Return the predictions and labels of the loss calls of steps in a row."""
    parts: list[Part] = []
    for step, call in enumerate(calls):
        named = {f"Net.mse_loss_input_{first + at}": values for at, values in enumerate(call)}
        infos = {
            name: TensorInfo(name, (collection, "layers", "mseloss_input"), values.shape)
            for (name, values), collection in zip(named.items(), ("predictions", "labels"), strict=True)
        }
        numbers = {
            name: {"mean": values.mean(), "std": values.std(), "min": values.min(), "abs_max": abs(values).max()}
            for name, values in named.items()
        }
        parts.append(Capture(step, numbers, infos=infos))
    return parts


def network(inputs: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the outputs of a freshly initialized network, as PyTorch initializes it."""
    rng, width = np.random.default_rng(seed), 64
    one, other = rng.uniform(-1, 1, (inputs.shape[1], width)), rng.uniform(-1, 1, (width, 1))
    return np.tanh(inputs @ one / inputs.shape[1] ** 0.5) @ other / width**0.5


def judge(*batches: list[Part], **parameters: float) -> Verdict:
    return verdicts(UnscaledInput(**parameters), [part for batch in batches for part in batch])[-1][1]


@pytest.mark.parametrize(
    ("means", "stds", "says"),
    [
        ([0.0, 0.0], [0.125, 125.0], None),
        ([0.0, 0.0], [0.124, 125.0], "feature 1 has a standard deviation 1,008 times"),
        ([0.0, 0.0], [0.001, 10.0], None),
        ([0.0, 0.0], [0.001, 10.1], "feature 1 has a standard deviation 10,100 times"),
        ([0.0, 20.0], [1.0, 2.0], None),
        ([0.0, 20.1], [1.0, 2.0], "feature 1 is 10.1 standard deviations from zero"),
        ([0.0, 10.0], [1.0, 0.1], None),
        ([0.0], [100.0], None),
        ([0.0], [100.5], "standard deviation 100 is outside [0.01, 100]"),
        ([0.0], [0.01], None),
        ([0.0], [0.0099], "is outside"),
    ],
)
def test_each_condition_fires_and_is_clear_on_its_bound(
    means: list[float], stds: list[float], says: str | None
) -> None:
    verdict = judge(batch(0, means, stds))
    if says is None:
        assert verdict == Clear()
    else:
        assert isinstance(verdict, Fired)
        assert says in verdict.message


def test_batches_are_pooled() -> None:
    values = np.random.default_rng(0).normal([3.0, -40.0], [1.0, 5.0], (100, 2))
    parts = [
        batch(at, list(part.mean(0)), list(part.std(0)), len(part))
        for at, part in enumerate((values[:40], values[40:]))
    ]
    fired = judge(*parts, offset=1)
    assert isinstance(fired, Fired)
    assert fired.evidence["offset"] == pytest.approx(max(abs(values.mean(0)) / values.std(0)))


def test_undecided_without_enough_samples() -> None:
    assert judge(batch(0, [0.0], [1e9], 63)) == Undecided("63 of 64 samples needed", stage="too few")
    assert isinstance(judge(batch(0, [0.0], [1e9], 32), batch(1, [0.0], [1e9], 32)), Fired)


def test_small_values_are_no_finding_if_some_are_large_as_in_sparse_inputs() -> None:
    assert judge(batch(0, [0.0], [0.005], size=0.1)) == Clear()
    assert isinstance(judge(batch(0, [0.0], [0.005], size=0.099)), Fired)


@pytest.mark.parametrize(
    ("low", "size", "std", "is_found"),
    [
        (0.0, 255.0, 60.0, True),
        (-1.0, 255.0, 60.0, False),
        (0.0, 256.0, 60.0, False),
        (0.0, 127.0, 60.0, False),
        (0.0, 255.0, 16.0, False),
    ],
)
def test_pixels_are_known_by_their_range(low: float, size: float, std: float, is_found: bool) -> None:
    verdict = judge(batch(0, [60.0], [std], low=low, size=size))
    assert isinstance(verdict, Fired) == is_found
    if is_found:
        assert verdict.message == "Net_input_0: values from 0 to 255, as pixels are read from files, over 64 samples"


def test_an_input_that_no_layer_is_given_as_it_is_is_not_evaluated() -> None:
    large = ([0.0], [1e5])
    assert isinstance(judge(batch(0, *large, rescaled=1e-5)), NotApplicable)
    assert isinstance(judge(batch(0, *large, layer="batchnorm1d_input")), NotApplicable)
    for rescaled in (0.34, 2.9):
        assert isinstance(judge(batch(0, *large, rescaled=rescaled)), Fired)


def test_labels_of_regressions_are_evaluated_by_their_scale() -> None:
    assert judge(labels(0.0, 100.0, 300.0)) == Clear()
    fired = judge(labels(2e5, 101.0, 2.1e5))
    assert isinstance(fired, Fired)
    assert fired.message == "MSELoss_input_1 (labels): standard deviation 101 is outside [0.01, 100], over 64 samples"
    assert isinstance(judge(labels(0.0, 0.009, 0.03)), Fired)
    assert verdicts(UnscaledInput(), labels(0.0, 1e4, 3e4, loss="gaussiannllloss")) == []


INPUTS = np.random.default_rng(1).normal(size=(96, 6))
TARGETS = np.sin(INPUTS @ np.random.default_rng(2).normal(size=(6, 1)))


@pytest.mark.parametrize(("mean", "std"), [(5e-6, 3e-6), (2.5e5, 8e4), (0.0, 1e4)])
@pytest.mark.parametrize("first", [0, 2])
def test_predictions_on_the_scale_of_the_labels_need_no_scaling_of_these(mean: float, std: float, first: int) -> None:
    labels, outputs = mean + std * TARGETS, network(INPUTS)
    assert judge(regression((mean + std * outputs, labels), first=first)) == Clear()
    fired = judge(regression((outputs, labels), first=first))
    assert isinstance(fired, Fired)
    assert fired.tensors == (f"Net.mse_loss_input_{first + 1}",)
    assert f", that of the predictions is {outputs.std():.3g}, over 96 samples" in fired.message


def test_a_target_that_another_network_computes_needs_no_scaling() -> None:
    student, teacher = (1e-4 * network(INPUTS, seed) for seed in (0, 1))
    assert judge(regression((student, teacher))) == Clear()


def test_predictions_of_the_right_spread_may_be_far_away() -> None:
    labels = 2.5e5 + 8e3 * TARGETS
    assert isinstance(judge(regression((8e3 * network(INPUTS), labels))), Fired)


def test_a_network_that_begins_with_zeros_is_judged_once_it_predicts_something() -> None:
    labels = 1e4 * TARGETS
    start = (0 * labels, labels)
    assert isinstance(judge(regression(start)), Undecided)
    assert judge(regression(start, (1e4 * network(INPUTS), labels))) == Clear()
    assert isinstance(judge(regression(start, (network(INPUTS), labels))), Fired)


def test_constant_labels_and_probabilities_have_no_scale() -> None:
    assert judge(labels(0.5, 0.0, 0.5)) == Clear()
    assert judge(labels(0.001, 0.0001, 0.002, shape=(64, 1000), low=0.0)) == Clear()
    assert isinstance(judge(labels(0.001, 0.0001, 0.002, shape=(64, 10), low=0.0)), Fired)


def test_token_ids_and_nonfinite_inputs_are_not_evaluated() -> None:
    assert isinstance(judge(batch(0, [5000.0], [9000.0], dtype="int64")), NotApplicable)
    assert isinstance(judge(batch(0, [math.nan, 0.0], [1.0, 1.0], size=math.nan)), NotApplicable)
    assert isinstance(judge(batch(0, [0.0, 0.0], [math.inf, 1.0])), NotApplicable)


@pytest.mark.parametrize(("rescaled", "expected"), [(1.0, Fired), (1 / 255, NotApplicable)])
def test_whole_numbers_are_evaluated_if_a_layer_is_given_them_as_floats(
    rescaled: float, expected: type[Verdict]
) -> None:
    pixels = batch(0, [127.0], [70.0], dtype="uint8", low=0.0, size=255.0, layer_dtype="float32", rescaled=rescaled)
    assert isinstance(judge(pixels), expected)


@pytest.mark.parametrize("loss", ["meansquarederror", "meanabsoluteerror", "huber", "logcosh", "l2loss"])
def test_labels_of_regressions_of_keras_and_gluon_are_evaluated_too(loss: str) -> None:
    assert isinstance(judge(labels(0.0, 101.0, 200.0, loss=loss)), Fired)


def test_a_constant_feature_has_no_scale() -> None:
    assert judge(batch(0, [0.0, 7.0], [1.0, 0.0])) == Clear()
    assert judge(batch(0, [3.0, 3.0], [0.0, 0.0])) == Clear()


def test_an_input_of_zeros_fires() -> None:
    fired = judge(batch(0, [0.0, 0.0], [0.0, 0.0]))
    assert isinstance(fired, Fired)
    assert "every value is 0" in fired.message


@pytest.mark.parametrize(("name", "value"), [("ratio", 1.0), ("offset", 0.0), ("scale", 1.0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"unscaled_input: {name} must be"):
        UnscaledInput(**{name: value})


def test_activations_that_grow_to_the_size_of_the_input_later_do_not_make_it_evaluated() -> None:
    tokens = {"dtype": "int64", "layer_dtype": "float32"}
    first = batch(0, [900.0, 900.0], [600.0, 600.0], rescaled=1e-3, **tokens)
    assert isinstance(judge(first), NotApplicable)
    assert isinstance(judge(first, batch(1, [900.0, 900.0], [600.0, 600.0], **tokens)), NotApplicable)


def test_a_model_that_is_given_no_tensor_has_no_input_to_evaluate() -> None:
    infos = {"first_input_0": TensorInfo("first_input_0", ("layers", "linear_input"), (64, 3), "float32")}
    captured = [Capture(0, {"first_input_0": {"abs_max": 3.0}}, infos=infos)]  # of a graph, say
    assert isinstance(judge(captured), NotApplicable)
