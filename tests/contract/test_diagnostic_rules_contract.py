"""Contract tests of the diagnostic rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rule_scenarios import INFOS, captured, given_loss, skipped

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind
from leadline.records.series import TensorInfo
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.rules.losses.diverging_loss import DivergingLoss
from leadline.rules.losses.ignored_labels import IgnoredLabels
from leadline.rules.losses.learning_rate import LearningRate
from leadline.rules.losses.loss_at_start import LossAtStart
from leadline.rules.losses.loss_choice import LossChoice
from leadline.rules.losses.loss_input import LossInput
from leadline.rules.losses.loss_spike import LossSpike
from leadline.rules.losses.metric_not_improving import MetricNotImproving
from leadline.rules.losses.sorted_batches import SortedBatches
from leadline.rules.registry import BUILT_IN, DEFAULT
from leadline.rules.system.recompilation import Recompilation
from leadline.rules.tensors.broken_averages import BrokenAverages
from leadline.rules.tensors.consecutive_linear import ConsecutiveLinear
from leadline.rules.tensors.duplicate_batches import DuplicateBatches
from leadline.rules.tensors.eval_in_train_mode import EvalInTrainMode
from leadline.rules.tensors.expert_balance import ExpertBalance
from leadline.rules.tensors.exploding_gradient import ExplodingGradient
from leadline.rules.tensors.identical_units import IdenticalUnits
from leadline.rules.tensors.lost_progress import LostProgress
from leadline.rules.tensors.missing_zero_grad import MissingZeroGrad
from leadline.rules.tensors.no_gradient import NoGradient
from leadline.rules.tensors.no_learning import NoLearning
from leadline.rules.tensors.nonfinite_origin import NonfiniteOrigin
from leadline.rules.tensors.output_collapse import OutputCollapse
from leadline.rules.tensors.replica_divergence import ReplicaDivergence
from leadline.rules.tensors.resume_changed import ResumeChanged
from leadline.rules.tensors.shared_samples import SharedSamples
from leadline.rules.tensors.skipped_steps import SkippedSteps
from leadline.rules.tensors.unscaled_input import UnscaledInput
from leadline.rules.tensors.unused_parameter import UnusedParameter
from leadline.rules.tensors.validation_mismatch import ValidationMismatch
from leadline.rules.tensors.weight_saturation import WeightSaturation
from leadline.testing.contracts import RuleContract, TableRuleContract
from leadline.testing.runs import ArrayStatistics, Capture, Part

PAIRS = f"loss/{facts.CONSECUTIVE_LINEAR}"
ALIKE = f"loss/{facts.IDENTICAL_UNITS}"
SORTED_STEPS = (0, 1, 2, 3, 4, 5, 10, 20, 30, 40)
"""The steps at which sorted_batches looks at labels."""


def numbers(name: str, values: Iterable[float]) -> tuple[Capture, ...]:
    return tuple(captured(step, {name: {"value": value}}) for step, value in enumerate(values))


def parameters(values: Mapping[str, Mapping[str, float]], count: int = 7, every: int = 10) -> tuple[Capture, ...]:
    return tuple(captured(step * every, values) for step in range(count))


def inputs(means: list[float], stds: list[float]) -> tuple[Part, ...]:
    infos = {**INFOS, "Net_input_0": replace(INFOS["Net_input_0"], shape=(100, 2))}
    batch = {"Net_input_0": {"unit_mean": means, "unit_std": stds}}
    sizes = {name: {"min": -1.0, "abs_max": 1.0} for name in ("Net_input_0", "a_input_0")}
    rows = [Capture(step, sizes, infos=infos) for step in range(8)]
    return tuple(part for row in rows for part in (row, ArrayStatistics(row.step, batch, infos=infos)))


def replicas(*sums: tuple[float, float]) -> tuple[Capture, ...]:
    return tuple(
        captured(step, {"a.weight": {"checksum": each}}, worker=f"rank{rank}-{rank}")
        for step, pair in enumerate(sums)
        for rank, each in enumerate(pair)
    )


FINITE: Mapping[str, Mapping[str, float]] = {"loss": {"value": 1.0}, "gradient/a.weight": {"nonfinite_count": 0.0}}


class TestNonfiniteOrigin(RuleContract):
    rule = NonfiniteOrigin
    fires_on = numbers("loss", [1.0, 0.9, math.nan])
    silent_on = parameters(FINITE)


class TestExplodingGradient(RuleContract):
    rule = ExplodingGradient
    fires_on = numbers("gradient_norm", [1.0] * 30 + [50.0, 60.0])
    silent_on = numbers("gradient_norm", [1.0] * 40)


class TestLossSpike(RuleContract):
    rule = LossSpike
    fires_on = numbers("loss", [1.0] * 30 + [9.0] * 5)
    silent_on = numbers("loss", [1.0] * 30 + [9.0] * 4 + [1.0] * 5)


def labelled(losses: Iterable[float]) -> tuple[Part, ...]:
    infos = {**INFOS, "CrossEntropyLoss_input_1": replace(INFOS["CrossEntropyLoss_input_1"], shape=(40,))}
    counts = ArrayStatistics(0, {"CrossEntropyLoss_input_1": {"class_counts": [10.0] * 4}}, infos=infos)
    return (counts, *numbers("CrossEntropyLoss_output_0", losses))


class TestDivergingLoss(RuleContract):
    rule = DivergingLoss
    fires_on = labelled([1.4] * 40 + [5.0] * 80)
    silent_on = labelled([1.4] * 40 + [2.0] * 80)


def starting_at(loss: float) -> tuple[Capture, ...]:
    return (
        captured(0, {"CrossEntropyLoss_input_0": {"abs_max": 1.0}}),
        *numbers("CrossEntropyLoss_output_0", [loss] * 10),
    )


class TestLossAtStart(RuleContract):
    rule = LossAtStart
    fires_on = starting_at(7.0)
    silent_on = starting_at(0.7)


def losses(kind: LossKind, activation: Activation, **more: float) -> tuple[Capture, ...]:
    given = {facts.KIND: float(kind), facts.ACTIVATION: float(activation), **more}
    return tuple(given_loss(step, "call", given) for step in range(2))


class TestLossInput(RuleContract):
    rule = LossInput
    fires_on = losses(LossKind.CROSS_ENTROPY, Activation.SOFTMAX)
    silent_on = losses(LossKind.CROSS_ENTROPY, Activation.NONE)


class TestLossChoice(RuleContract):
    rule = LossChoice
    fires_on = losses(
        LossKind.SQUARED_ERROR, Activation.NONE, label_min=0.0, label_max=1.0, are_labels_binary=1.0, classes=1.0
    )
    silent_on = losses(
        LossKind.SQUARED_ERROR, Activation.NONE, label_min=0.0, label_max=2.0, are_labels_binary=0.0, classes=1.0
    )


class TestIgnoredLabels(RuleContract):
    rule = IgnoredLabels
    fires_on = losses(LossKind.CROSS_ENTROPY, Activation.NONE, ignored_share=1.0, ignore_index=-100.0)
    silent_on = losses(LossKind.CROSS_ENTROPY, Activation.NONE, ignored_share=0.99, ignore_index=-100.0)


class TestConsecutiveLinear(RuleContract):
    rule = ConsecutiveLinear
    fires_on = (captured(0, {name: {"value": 1.0} for name in (PAIRS, f"0+1/{facts.CONSECUTIVE_LINEAR}")}),)
    silent_on = numbers(PAIRS, [0.0])


class TestIdenticalUnits(RuleContract):
    rule = IdenticalUnits
    fires_on = (captured(0, {name: {"value": 1.0} for name in (ALIKE, f"0+1/{facts.IDENTICAL_UNITS}")}),)
    silent_on = numbers(ALIKE, [0.0])


LOOP = {"SGD/lr": {"value": 0.1}, "SGD/steps_without_zero_grad": {"value": 0.0}}
PUSHED = {"gradient/a.weight": {"abs_max": 1.0}}


class TestClosingRemarks(TableRuleContract):
    rule = ClosingRemarks
    fires_on = numbers("loss", [2.0 * 0.99**step for step in range(60)])
    silent_on = numbers("loss", [1.0] * 120)


class TestNoGradient(RuleContract):
    rule = NoGradient
    fires_on = parameters({"gradient/a.weight": {"abs_max": 0.0}, "a.weight": {"update_ratio": 0.0}})
    silent_on = parameters({**PUSHED, "a.weight": {"update_ratio": 0.1}})


class TestNoLearning(RuleContract):
    rule = NoLearning
    fires_on = parameters({**PUSHED, "a.weight": {"checksum": 7.0}})
    silent_on = tuple(
        captured(10 * step, {**PUSHED, **LOOP, "a.weight": {"checksum": float(step)}}) for step in range(7)
    )


class TestMissingZeroGrad(RuleContract):
    rule = MissingZeroGrad
    fires_on = numbers("SGD/steps_without_zero_grad", [0.0, 10.0])
    silent_on = numbers("SGD/steps_without_zero_grad", [0.0, 0.0])


class TestLostProgress(RuleContract):
    rule = LostProgress
    fires_on = numbers("Adam/made_anew", [0.0, 3.0])
    silent_on = numbers("Adam/made_anew", [0.0, 0.0])


class TestUnusedParameter(RuleContract):
    rule = UnusedParameter
    fires_on = parameters({"a.weight": {"checksum": 7.0, "update_ratio": 0.0}})
    silent_on = parameters({**PUSHED, "a.weight": {"checksum": 7.0, "update_ratio": 0.1}})


def outputs(std: float) -> tuple[Capture, ...]:
    return tuple(captured(step, {"Net_output_0": {"batch_std": std, "abs_mean": 1.0}}) for step in range(12))


class TestOutputCollapse(RuleContract):
    rule = OutputCollapse
    fires_on = outputs(0.0)
    silent_on = outputs(0.1)


class TestUnscaledInput(RuleContract):
    rule = UnscaledInput
    fires_on = inputs([0.0, 0.0], [1.0, 5000.0])
    silent_on = inputs([0.0, 0.5], [1.0, 2.0])


def weights(largest: float) -> tuple[Capture, ...]:
    return (captured(0, {"a.weight": {"abs_max": largest, "p0.5": -largest, "p99.5": 1.0}}),)


class TestWeightSaturation(RuleContract):
    rule = WeightSaturation
    fires_on = weights(51.0)
    silent_on = weights(49.0)


class TestEvalInTrainMode(RuleContract):
    rule = EvalInTrainMode
    fires_on = numbers("Net/train_steps_in_eval_mode", [0.0, 10.0])
    silent_on = numbers("Net/train_steps_in_eval_mode", [9.0, 0.0])


class TestBrokenAverages(RuleContract):
    rule = BrokenAverages
    fires_on = tuple(
        captured(step, {"SGD/nonfinite_averages": {"value": 0.0}, "SGD/initial_averages": {"value": 1.0}})
        for step in range(3)
    )
    silent_on = numbers("SGD/nonfinite_averages", [0.0] * 3)


class TestRecompilation(RuleContract):
    rule = Recompilation
    fires_on = tuple(
        captured(
            step, {name: {"value": 4.0 * step} for name in ("process/recompilations", "f (a.py:7): x/recompilations")}
        )
        for step in range(3)
    )
    silent_on = numbers("process/recompilations", [2.0] * 3)


class TestResumeChanged(RuleContract):
    rule = ResumeChanged
    fires_on = (
        *numbers("loss", [1.0] * 10),
        captured(10, {"loss": {"value": 9.0}, "process/resumed": {"value": 1.0}, "process/new_state": {"value": 0.0}}),
        *(captured(step, {"loss": {"value": 9.0}}) for step in range(11, 15)),
    )
    silent_on = (
        *numbers("loss", [1.0] * 10),
        captured(10, {"loss": {"value": 1.0}, "process/resumed": {"value": 1.0}, "process/new_state": {"value": 0.0}}),
        *(captured(step, {"loss": {"value": 1.0}}) for step in range(11, 20)),
    )


def of_router(counts: list[float]) -> tuple[Part, ...]:
    infos = {"router_output_0": TensorInfo("router_output_0", ("layers",), (200, 2), "int64")}
    return tuple(
        part
        for step in range(100, 300, 10)
        for part in (
            Capture(step, {"router_output_0": {"max": 3.0}}, infos=infos),
            ArrayStatistics(step, {"router_output_0": {"class_counts": counts}}, infos=infos),
        )
    )


class TestExpertBalance(RuleContract):
    rule = ExpertBalance
    fires_on = of_router([300.0, 0.0, 0.0, 100.0])
    silent_on = of_router([200.0, 0.0, 100.0, 100.0])


def updates(ratio: float) -> tuple[Capture, ...]:
    return parameters({"a.weight": {"update_ratio": ratio}, "b.bias": {"update_ratio": math.inf}}, count=12)


class TestLearningRate(RuleContract):
    rule = LearningRate
    fires_on = updates(0.5)
    silent_on = updates(1e-3)


def counted(*batches: list[float]) -> tuple[Part, ...]:
    return tuple(
        ArrayStatistics(step, {"CrossEntropyLoss_input_1": {"class_counts": counts}}, infos=INFOS)
        for step, counts in enumerate(batches)
    )


class TestMetricNotImproving(RuleContract):
    rule = MetricNotImproving
    fires_on = (*counted([20, 20]), *numbers("CrossEntropyLoss_output_0", [0.7 + 0.01 * (at % 3) for at in range(340)]))
    silent_on = (*counted([20, 20]), *numbers("CrossEntropyLoss_output_0", [0.7 * 0.99**at for at in range(340)]))


class TestSortedBatches(RuleContract):
    rule = SortedBatches
    fires_on = tuple(
        ArrayStatistics(step, {"CrossEntropyLoss_input_1": {"class_counts": counts}}, infos=INFOS)
        for step, counts in zip(SORTED_STEPS, [[8.0, 0.0]] * 5 + [[0.0, 8.0]] * 5, strict=True)
    )
    silent_on = tuple(
        ArrayStatistics(step, {"CrossEntropyLoss_input_1": {"class_counts": [4.0, 4.0]}}, infos=INFOS)
        for step in SORTED_STEPS
    )


def given_samples(*, evaluated: int) -> tuple[Part, ...]:
    """Return batches of the training samples 0 to 239, an evaluation of 240 from a number on, and a train step."""
    parts: list[Part] = []
    for step in [*range(24), 50]:
        mode, batch = "train" if step < 12 or step == 50 else "eval", step % 12
        first, stride = (20 * batch, 1) if mode == "train" else (evaluated + batch, 12)
        rows = [[float(first + stride * row), 0.0] for row in range(20)]
        parts.append(Capture(step, {"loss": {"value": 1.0}}, mode=mode, infos=INFOS))
        parts.append(ArrayStatistics(step, {"Net_input_0": {"fingerprints": rows}}, mode=mode, infos=INFOS))
    return tuple(parts)


class TestSharedSamples(RuleContract):
    rule = SharedSamples
    fires_on = given_samples(evaluated=60)
    silent_on = given_samples(evaluated=231)


def validated(*, scale: float) -> tuple[Part, ...]:
    """Return train steps with features of size 1, an evaluation with others, and one more train step."""
    parts: list[Part] = []
    for step in range(8):
        mode = "eval" if 4 <= step < 7 else "train"
        size = scale if mode == "eval" else 1.0
        vectors = {"unit_mean": [0.0, 0.0], "unit_std": [size, size]}
        parts.append(captured(step, {"loss": {"value": 1.0}, "Net_input_0": {"abs_max": 3 * size}}, mode=mode))
        parts.append(ArrayStatistics(step, {"Net_input_0": vectors}, mode=mode, infos=INFOS))
    return tuple(parts)


class TestValidationMismatch(RuleContract):
    rule = ValidationMismatch
    fires_on = validated(scale=10.5)
    silent_on = validated(scale=9.5)


def given_to_ranks(*, are_equal: bool) -> tuple[Part, ...]:
    """Return the batches of two ranks."""
    parts: list[Part] = []
    infos = {**INFOS, "Net/replicas": TensorInfo("Net/replicas", ("checks",), ())}
    for step in range(8):
        for rank in range(2):
            worker = f"rank{rank}-{rank}"
            rows = [[float(step), float(row if are_equal else row + rank)] for row in range(20)]
            parts.append(Capture(step, {"Net/replicas": {"value": 2.0}}, worker=worker, infos=infos))
            parts.append(ArrayStatistics(step, {"Net_input_0": {"fingerprints": rows}}, worker=worker, infos=infos))
    return tuple(parts)


class TestDuplicateBatches(RuleContract):
    rule = DuplicateBatches
    fires_on = given_to_ranks(are_equal=True)
    silent_on = given_to_ranks(are_equal=False)


SKIPS = tuple(skipped(step) for step in range(10, 30))


class TestSkippedSteps(RuleContract):
    rule = SkippedSteps
    fires_on = (*numbers("loss", [1.0] * 40), *SKIPS)
    silent_on = (*numbers("loss", [1.0] * 80), *numbers("SGD/lr", [0.1]), *SKIPS[:8])


class TestReplicaDivergence(RuleContract):
    rule = ReplicaDivergence
    fires_on = replicas((1.0, 1.0), (2.0, 2.0), (3.0, 4.0))
    silent_on = replicas((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))


def test_the_default_rules_exist() -> None:
    assert set(DEFAULT) <= set(BUILT_IN)
