"""Contract tests of the training rules."""

from __future__ import annotations

from typing import ClassVar

from generated_runs import arrays_of

from leadline.records.series import TensorInfo
from leadline.rules.losses.class_imbalance import ClassImbalance
from leadline.rules.losses.confusion import Confusion
from leadline.rules.losses.generalization_gap import GeneralizationGap
from leadline.rules.losses.overfit import Overfit
from leadline.rules.losses.overtraining import Overtraining
from leadline.rules.losses.rising_validation_loss import RisingValidationLoss
from leadline.rules.tensors.all_zero import AllZero
from leadline.rules.tensors.check_input_images import CheckInputImages
from leadline.rules.tensors.dead_relu import DeadRelu
from leadline.rules.tensors.gradient_clipping import GradientClipping
from leadline.rules.tensors.nlp_sequence_ratio import NLPSequenceRatio
from leadline.rules.tensors.poor_weight_initialization import PoorWeightInitialization
from leadline.rules.tensors.saturated_activation import SaturatedActivation
from leadline.rules.tensors.similar_across_runs import SimilarAcrossRuns
from leadline.rules.tensors.tensor_variance import TensorVariance
from leadline.rules.tensors.unchanged_tensor import UnchangedTensor
from leadline.testing.contracts import RuleContract
from leadline.testing.runs import Capture, Part


def statistic(tensor: str, name: str, *values: float) -> tuple[Capture, ...]:
    return tuple(Capture(step, {tensor: {name: value}}) for step, value in enumerate(values))


def vector(tensor: str, collection: str, name: str, values: list, *, shape: tuple[int, ...] = (8, 4)) -> list[Part]:
    info = {tensor: TensorInfo(tensor, (collection,), shape)}
    return [
        Capture(0, {tensor: {"abs_max": 1.0}}, infos=info),
        arrays_of(0, {f"{tensor}@{name}": values}),
    ]


def losses(train: list[float], validation: list[float]) -> list[Capture]:
    values = [("train", loss) for loss in train] + [("eval", loss) for loss in validation]
    return [Capture(step, {"loss": {"value": value}}, mode=mode) for step, (mode, value) in enumerate(values)]


def epochs(*validation: float) -> list[Capture]:
    """Return an epoch of one train step and one eval step for each validation loss; the training loss falls."""
    return [
        Capture(2 * epoch + (mode == "eval"), {"loss": {"value": value}}, mode=mode)
        for epoch, loss in enumerate(validation)
        for mode, value in (("train", 0.8**epoch), ("eval", loss))
    ]


class TestAllZero(RuleContract):
    rule = AllZero
    parameters: ClassVar = {"collection_names": ("gradients",)}
    fires_on = statistic("gradient/a.weight", "zero_ratio", 0.5, 0.5, 0.5, 1.0)
    silent_on = statistic("gradient/a.weight", "zero_ratio", 0.5, 0.5, 0.5, 0.999)


class TestTensorVariance(RuleContract):
    rule = TensorVariance
    parameters: ClassVar = {"collection_names": ("weights",), "max_threshold": 1.0, "min_threshold": 1e-6}
    fires_on = statistic("a.weight", "variance", 1.0, 1.1)
    silent_on = statistic("a.weight", "variance", 1.0, 1e-6)


class TestUnchangedTensor(RuleContract):
    rule = UnchangedTensor
    parameters: ClassVar = {"tensor_regex": ("weight",)}
    fires_on = statistic("a.weight", "close_1e-05_1e-08", float("nan"), 1.0, 1.0)
    silent_on = statistic("a.weight", "close_1e-05_1e-08", float("nan"), 1.0, 0.99)


class TestOverfit(RuleContract):
    rule = Overfit
    fires_on = tuple(losses([1.0, 1.0], [1.2]))
    silent_on = tuple(losses([1.0, 1.0], [1.05]))


class TestOvertraining(RuleContract):
    rule = Overtraining
    fires_on = tuple(losses([1.0] * 6, []))
    silent_on = tuple(losses([1.0] * 5, [1.0] * 10))


class TestRisingValidationLoss(RuleContract):
    rule = RisingValidationLoss
    fires_on = tuple(epochs(1.0, 0.5, 0.5, 0.5, *(0.6 + 0.1 * epoch for epoch in range(8))))
    silent_on = tuple(epochs(1.0, *(0.5 + 0.01 * (epoch % 2) for epoch in range(11))))


class TestGeneralizationGap(RuleContract):
    rule = GeneralizationGap
    fires_on = tuple(epochs(1.0, *[0.9] * 11))
    silent_on = tuple(epochs(1.0, *(0.5 + 0.01 * (epoch % 2) for epoch in range(11))))


class TestGradientClipping(RuleContract):
    rule = GradientClipping
    parameters: ClassVar = {"window": 10}
    fires_on = statistic("gradient_clipped", "value", *[1.0] * 6)
    silent_on = statistic("gradient_clipped", "value", *[0.0, 1.0] * 6)


class TestPoorWeightInitialization(RuleContract):
    rule = PoorWeightInitialization
    fires_on = tuple(
        Capture(step, {"a.relu_input_0": {"variance": 11.0}, "b.relu_input_0": {"variance": 1.0}}) for step in range(3)
    )
    silent_on = tuple(
        Capture(
            step,
            {
                "a.relu_input_0": {"variance": 10.0},
                "b.relu_input_0": {"variance": 1.0},
                "gradient/a.weight": {"p5": -1.0, "p95": 1.0},
                "loss": {"value": 1.0 - 0.1 * step},
            },
        )
        for step in range(7)
    )


class TestDeadRelu(RuleContract):
    rule = DeadRelu
    fires_on = tuple(vector("act_output_0", "relu_output", "unit_activity", [0.0, 0.0, 0.0, 1.0]))
    silent_on = tuple(vector("act_output_0", "relu_output", "unit_activity", [0.0, 0.0, 0.01, 1.0]))


class TestSaturatedActivation(RuleContract):
    rule = SaturatedActivation
    fires_on = tuple(vector("act_input_0", "sigmoid_input", "unit_within_-23_16.99999", [0.0, 0.0, 1.0]))
    silent_on = tuple(vector("act_input_0", "tanh_input", "unit_within_-9.4999_9.4999", [0.0, 0.5]))


class TestClassImbalance(RuleContract):
    rule = ClassImbalance
    fires_on = tuple(vector("CrossEntropyLoss_input_1", "labels", "class_counts", [4600.0, 100.0]))
    silent_on = tuple(vector("CrossEntropyLoss_input_1", "labels", "class_counts", [460.0, 46.0]))


class TestConfusion(RuleContract):
    rule = Confusion
    parameters: ClassVar = {"start_step": 0}
    fires_on = tuple(vector("CrossEntropyLoss_input_1", "labels", "confusion", [[8.0, 2.0], [0.0, 10.0]]))
    silent_on = tuple(vector("CrossEntropyLoss_input_1", "labels", "confusion", [[9.0, 1.0], [1.0, 9.0]]))


class TestCheckInputImages(RuleContract):
    rule = CheckInputImages
    fires_on = tuple(vector("Net_input_0", "inputs", "unit_mean", [0.0, 0.5, 0.5], shape=(500, 3, 8, 8)))
    silent_on = tuple(vector("Net_input_0", "inputs", "unit_mean", [0.2, -0.2, 0.0], shape=(500, 3, 8, 8)))


class TestNLPSequenceRatio(RuleContract):
    rule = NLPSequenceRatio
    fires_on = statistic("encoder.embedding_input_0", "equals_0", 0.51)
    silent_on = statistic("encoder.embedding_input_0", "equals_0", 0.5)


class TestSimilarAcrossRuns(RuleContract):
    rule = SimilarAcrossRuns
    parameters: ClassVar = {"other_trials": ("base",)}
    fires_on = statistic("loss", "value", 1.0, 0.5, 0.3)
    silent_on = statistic("loss", "value", 1.0, 0.5)
    other_runs: ClassVar = {"base": statistic("loss", "value", 1.0, 0.5, 0.25)}
