"""What probes of ``leadline check`` say of targets, rates, shifted labels and values that scripts change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from leadline.frameworks.check.learning import FEW_RATES, LEAST_STEPS, STEPS, has_learned, judge_exchange, steps_within
from leadline.frameworks.check.model_inputs import Given, judge_inputs
from leadline.frameworks.check.samples import labels_shifted
from leadline.frameworks.check.updates import judge_no_update
from leadline.frameworks.torch.check.batch import Batch, Input, Prediction
from leadline.frameworks.torch.check.direction import _labelled
from leadline.frameworks.torch.check.influence import is_left_over
from leadline.frameworks.torch.check.learning import _permuted
from leadline.frameworks.torch.check.loss_calls import targets_of
from leadline.frameworks.torch.check.probes import in_order
from leadline.frameworks.torch.check.ranges import out_of_reach
from leadline.frameworks.torch.check.step_copy import planned_rate
from leadline.frameworks.torch.check.step_tape import RecordedCall, plain_values
from leadline.records.check_result import PROBES

FUNCTIONS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "nothing": lambda value: value * 2,
    "scaled": lambda value: torch.tanh(value) * 3,
}


def step(last: str, target: torch.Tensor, loss: Any = functional.mse_loss) -> Any:
    """Return a step whose model ends with a function, and a change of the shape."""
    prediction = FUNCTIONS[last](torch.linspace(-2, 2, 20, requires_grad=True).reshape(20, 1)).squeeze(1)
    call = RecordedCall(loss, (prediction, target), {}, loss(prediction, target), has_gradients=True, autocast=None)
    return SimpleNamespace(calls=[call])


@pytest.mark.parametrize(
    ("last", "low", "high", "said"),
    [
        ("tanh", -3.0, 3.0, "outside of -1 to 1"),
        ("tanh", -1.0, 1.0, ""),
        ("sigmoid", -1.0, 1.0, "outside of 0 to 1"),
        ("sigmoid", 0.0, 1.0, ""),
        ("relu", -1.0, 1.0, "below 0"),
        ("relu", 0.0, 9.0, ""),
        ("nothing", -9.0, 9.0, ""),
        ("scaled", -3.0, 3.0, ""),
    ],
)
def test_targets_beyond_the_range_of_the_last_function(last: str, low: float, high: float, said: str) -> None:
    found = out_of_reach(step(last, torch.linspace(low, high, 20)))
    assert (found is not None) == bool(said)
    if found is not None:
        assert said in found.message
        assert last in found.message
        assert found.outcome == "failed"


@pytest.mark.parametrize(
    ("pixels", "is_named"),
    [
        (lambda noise: (noise.astype(np.int16) % 256).astype(np.float32) / 255, True),
        (lambda noise: (noise.astype(np.int16) % 256).astype(np.float32), True),
        (lambda noise: noise.astype(np.float32) / 255, False),
        (lambda noise: np.where(noise > 0, 255.0, 0.0), False),
        (lambda noise: np.abs(noise) * 8, False),
    ],
    ids=["bytes", "unscaled", "signed", "black and white", "of all levels"],
)
def test_differences_of_unsigned_bytes(pixels: Any, is_named: bool) -> None:
    noise = np.random.default_rng(0).integers(-6, 7, (16, 1, 12, 12))
    given = Given("x", pixels(noise), "float32", 0, is_scaled_later=True)
    found = judge_inputs([given], [], 16)
    assert (found.outcome == "failed") == is_named
    if is_named:
        assert found.message.endswith("what was from -6 to -1 has become 250 to 255")


def test_only_losses_that_measure_a_distance_have_targets_out_of_reach() -> None:
    assert out_of_reach(step("sigmoid", torch.linspace(-1, 1, 20), functional.soft_margin_loss)) is None
    assert out_of_reach(step("sigmoid", torch.linspace(-1, 1, 20), functional.l1_loss)) is not None


@pytest.mark.parametrize(
    ("rates", "at", "outcome", "said"),
    [
        ([0.0, 0.0], 2, "failed", "the learning rate is 0 at train step 2"),
        ([0.0], 1, "not applicable", "first steps"),
        ([0.0, 0.1], 2, "failed", "rounded away"),
        ([], 2, "failed", "rounded away"),
    ],
)
def test_an_update_that_changes_no_parameter(rates: list[float], at: int, outcome: str, said: str) -> None:
    found = judge_no_update(rates, at, {})
    assert found.outcome == outcome
    assert said in found.message


def test_permuted_labels_are_asked_for_only_if_a_shift_is_better() -> None:
    asked = []

    def others() -> list[float]:
        asked.append(1)
        return [1.0, 0.9]

    assert labels_shifted(1.0, others, {1: 0.8, -1: 1.2}) is None
    assert asked == []
    found = labels_shifted(1.0, others, {1: 0.8, -1: 0.3})
    assert found is not None
    assert "1 sample later" in found.message
    assert labels_shifted(1.0, lambda: [0.3], {1: 0.3}) is None


def test_numbers_and_arrays_of_a_module_are_kept_as_they_were() -> None:
    module = torch.nn.Linear(2, 2)
    module.scale, module.mean, module.count = 0.5, np.zeros(3), 4
    module.names, module.whole = ["a"], np.arange(3)
    kept = plain_values(module)
    assert set(kept) == {"scale", "mean"}
    module.mean += 1
    np.testing.assert_array_equal(kept["mean"], np.zeros(3))


def test_a_model_whose_steps_take_long_is_trained_at_fewer_rates() -> None:
    assert steps_within(12.0, 0.18) < LEAST_STEPS <= steps_within(12.0, 0.18, FEW_RATES)
    assert steps_within(12.0, 0.001) == STEPS
    assert has_learned(2.0, {"slow": [2.0, 1.9], "fast": [2.0, 0.9]})
    assert not has_learned(2.0, {"slow": [2.0, 1.1]})


def test_probes_that_learn_are_made_last() -> None:
    made = in_order(tuple(PROBES))
    assert made[-2:] == ["unlearnable_batch", "ignored_input"]
    assert sorted(made) == sorted(PROBES)


def test_zeros_that_a_sum_begins_with_are_no_labels() -> None:
    values = torch.zeros(6), torch.randn(6)
    zeros, labels = (Input(at, "labels", value, is_model_input=False, axis=0) for at, value in enumerate(values))
    predictions = [Prediction(9, torch.randn(6), 0)]

    def labelled(*given: Input) -> Any:
        batch = SimpleNamespace(predictions=predictions, labels=list(given), size=6)
        return _labelled(SimpleNamespace(batch=batch))  # type: ignore[arg-type]

    assert labelled(zeros) == (None, None)
    assert labelled(zeros, labels) == (labels, predictions[0])


@pytest.mark.parametrize(
    ("exchanged", "relabelled", "outcome"),
    [(0.1, 0.1, "failed"), (0.1, 3.0, "not applicable"), (3.0, 3.0, "passed"), (3.0, 0.1, "passed")],
)
def test_samples_that_a_loss_compares_with_each_other_may_change_places(
    exchanged: float, relabelled: float, outcome: str
) -> None:
    assert judge_exchange(2.0, 0.1, exchanged, relabelled).outcome == outcome


def test_labels_change_places_each_once_so_that_a_constant_prediction_keeps_its_loss() -> None:
    others = _permuted(SimpleNamespace(size=9), 3).tolist()  # type: ignore[arg-type]
    assert sorted(others) == list(range(9))
    assert all(other != sample for sample, other in enumerate(others))


def test_noise_on_the_input_of_a_model_is_no_label() -> None:
    inputs, noise, noisy, energies, labels, loss = [torch.randn(4, requires_grad=at == 3) for at in range(6)]
    calls = [
        RecordedCall(function, (), {}, made, has_gradients=True, autocast=None, consumed=consumed, produced=(id(made),))
        for function, consumed, made in (
            (torch.add, (id(inputs), id(noise)), noisy),
            (torch.nn.Linear(4, 4), (id(noisy),), energies),
            (functional.mse_loss, (id(energies), id(labels)), loss),
        )
    ]
    batch = object.__new__(Batch)
    batch._step = SimpleNamespace(loss=id(loss), calls=calls)  # type: ignore[assignment]
    given = [Input(id(one), "labels", one, is_model_input=False, axis=0) for one in (noise, labels)]
    batch.labels = [*given, Input(7, "y", labels, is_model_input=True, axis=0)]
    assert [item.key for item in batch.labels_of_loss] == [id(labels), 7]


def test_an_action_that_follows_from_a_feature_is_no_label_among_the_features() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(64, 5)).astype("float32")
    features[:, 2] = generator.integers(0, 2, 64)
    given = Given("x", features, "float32", 0)
    chosen = Given("action", features[:, 2].astype("int64"), "int64", 0)
    assert judge_inputs([given], [chosen], 64).outcome == "failed"
    assert judge_inputs([given], [chosen._replace(is_answer=False)], 64).outcome == "passed"


@pytest.mark.parametrize(
    ("labels", "is_named"),
    [
        (lambda x: x[:, 3, 1], True),
        (lambda x: x[:, 0, :1], True),
        (lambda x: x[:, 3, 1] + np.float32(1e-6), False),
        (lambda x: np.where(np.arange(len(x)) < 31, x[:, 3, 1], x[:, 2, 1]), False),
        (lambda x: x[:, :, 2].sum(1).round(), False),
        (lambda x: x[:, 0, 2], False),
        (lambda x: x, False),
        (lambda x: x[:, :, :1], False),
    ],
    ids=["a step", "the first step", "near", "moving", "another number", "to remember", "all of it", "a channel"],
)
def test_sequences_that_hold_their_label(labels: Any, is_named: bool) -> None:
    generator = np.random.default_rng(0)
    sequences = generator.normal(size=(32, 20, 3)).astype("float32")
    sequences[:, :, 2] = generator.integers(0, 9, (32, 20))
    found = judge_inputs([Given("x", sequences, "float32", 0)], [Given("y", labels(sequences), "float32", 0)], 32)
    assert (found.outcome == "failed") == is_named
    if is_named:
        place = "[3, 1]" if labels(sequences).ndim == 1 else "[0, 0]"
        assert found.message == (
            f"x holds the label: element {place} of each sample is its label, bit for bit, in all 32 samples"
        )


@pytest.mark.parametrize("loss", ["cross_entropy", "by hand"])
def test_targets_are_those_of_standard_losses_and_what_they_were_computed_from(loss: str) -> None:
    labels = torch.tensor([1.0, 0.0, 1.0])
    target = labels.long()
    logits = torch.randn(3, 2, requires_grad=True)
    calls = [RecordedCall(torch.Tensor.long, (labels,), {}, target, has_gradients=False, autocast=None)]
    calls[0].consumed, calls[0].produced = (id(labels),), (id(target),)
    if loss == "cross_entropy":
        output = functional.cross_entropy(logits, target)
        calls.append(
            RecordedCall(functional.cross_entropy, (logits, target), {}, output, has_gradients=True, autocast=None)
        )
        calls[1].consumed, calls[1].produced = (id(logits), id(target)), (id(output),)
    found = targets_of(SimpleNamespace(calls=calls, tape=SimpleNamespace(calls=calls)))  # type: ignore[arg-type]
    assert found == ({id(labels), id(target)} if loss == "cross_entropy" else set())


STRIDED = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 9, 2), torch.nn.ReLU(), torch.nn.MaxPool1d(3, 2))


@pytest.mark.parametrize("length", range(20, 40))
def test_the_positions_that_strided_layers_leave_over_are_no_features(length: int) -> None:
    sequence = torch.randn(4, 1, length, requires_grad=True)
    STRIDED(sequence).square().sum().backward()
    assert sequence.grad is not None
    reach = 2 * (2 * ((((length - 9) // 2 + 1) - 3) // 2) + 2) + 9
    left_over = list(range(reach, length))
    assert bool((sequence.grad[..., reach:] == 0).all())
    assert len(left_over) < 4
    assert is_left_over(left_over, sequence, [STRIDED])
    assert not is_left_over([0], sequence, [STRIDED])
    assert not is_left_over(range(length - 4, length), sequence, [STRIDED])
    assert not is_left_over([length - 1], sequence, [torch.nn.Linear(length, 2)])


@pytest.mark.parametrize(
    ("schedule", "planned"),
    [
        (lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=100), 0.5),
        (lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01), 0.1),
        (lambda optimizer: None, 0.1),
    ],
)
def test_the_rate_that_a_schedule_raises_to(schedule: Any, planned: float) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule(optimizer)
    assert planned_rate(optimizer.param_groups[0]) == planned
