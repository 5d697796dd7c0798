"""Contract tests of the first rules, and of completeness."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import ClassVar

from leadline.config.parameters import display_name
from leadline.rules.losses.loss_not_decreasing import LossNotDecreasing
from leadline.rules.registry import AMAZON, BUILT_IN, DEFAULT, find_rule
from leadline.rules.system.stalled_training import StalledTraining
from leadline.rules.tensors.exploding_tensor import ExplodingTensor
from leadline.rules.tensors.vanishing_gradient import VanishingGradient
from leadline.rules.tensors.weight_update_ratio import WeightUpdateRatio
from leadline.testing.contracts import RuleContract
from leadline.testing.runs import SECOND_NS, START_NS, Capture, SystemSample

FALLING = tuple(Capture(step, {"loss": {"value": 10.0 * 0.9**step}}) for step in range(40))


def beats(until_seconds: int) -> list[SystemSample]:
    return [SystemSample(START_NS + second * SECOND_NS) for second in range(until_seconds)]


def updates(ratio: float) -> list[Capture]:
    return [Capture(step, {"a.weight": {"update_ratio": ratio, "l2": 2.0}}) for step in range(3)]


class TestExplodingTensor(RuleContract):
    rule = ExplodingTensor
    fires_on = (
        *FALLING,
        Capture(40, {"loss": {"value": math.nan}}),
    )
    silent_on = FALLING


class TestVanishingGradient(RuleContract):
    rule = VanishingGradient
    fires_on = (Capture(0, {"gradient/a.weight": {"abs_mean": 1e-9}}),)
    silent_on = (Capture(0, {"gradient/a.weight": {"abs_mean": 1e-3}}),)


class TestWeightUpdateRatio(RuleContract):
    rule = WeightUpdateRatio
    fires_on = updates(20.0)
    silent_on = updates(0.01)


class TestLossNotDecreasing(RuleContract):
    rule = LossNotDecreasing
    fires_on = tuple(Capture(step, {"loss": {"value": 1.0}}) for step in range(40))
    silent_on = FALLING


class TestStalledTraining(RuleContract):
    rule = StalledTraining
    parameters: ClassVar = {"threshold": 5.0}
    fires_on = (
        *FALLING,
        *beats(12),
    )
    silent_on = (
        *FALLING,
        *beats(6),
    )


def test_every_built_in_rule_has_a_contract_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    held = set(re.findall(r"^    rule = (\w+)$", tests, re.MULTILINE))
    assert held == {find_rule(name).__name__ for name in BUILT_IN}
    assert all(display_name(find_rule(name)) == name for name in BUILT_IN)
    assert all(find_rule(amazon) is find_rule(ours) for amazon, ours in AMAZON.items())
    assert set(DEFAULT) <= set(BUILT_IN)
