"""Clipping that limits the updates: what advice says of it, beside numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from leadline.records.series import TensorInfo
from leadline.records.verdict import Fired
from leadline.rules.losses.learning_rate import LearningRate
from leadline.rules.losses.metric_not_improving import MetricNotImproving
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

_INFOS = {
    "a.weight": TensorInfo("a.weight", ("weights",), (4, 4)),
    "SGD/lr": TensorInfo("SGD/lr", ("hyperparameters",), ()),
    "GradScaler/scale": TensorInfo("GradScaler/scale", ("hyperparameters",), ()),
    "cross_entropy_output_0": TensorInfo("cross_entropy_output_0", ("losses",), ()),
    "cross_entropy_input_1": TensorInfo("cross_entropy_input_1", ("labels",), (8,), "int64"),
    **{
        name: TensorInfo(name, ("gradient_norms",), ())
        for name in ("gradient_norm", "gradient_norm_before_clipping", "gradient_clipped")
    },
}


def clip(gradients: Sequence[float], limit: float) -> tuple[float, float]:
    """Return the norm before clipping and after, as ``clip_grad_norm_`` computes them."""
    norm = float(np.linalg.norm(gradients))
    return norm, norm * min(1.0, limit / norm)


def run(before: float, after: float, scale: float | None, *, ratio: float = 2e-8, steps: int = 400) -> list[Part]:
    parts: list[Part] = [ArrayStatistics(0, {"cross_entropy_input_1": {"class_counts": [4.0, 4.0]}}, infos=_INFOS)]
    for step in range(steps):
        values = {
            "cross_entropy_output_0": 0.694,
            "gradient_norm_before_clipping": before,
            "gradient_clipped": float(after < before),
        }
        if step % 10 == 0:
            values |= {"SGD/lr": 0.1, "gradient_norm": after if scale is None else after / scale}
            values |= {"GradScaler/scale": scale} if scale is not None else {}
        numbers = {name: {"value": value} for name, value in values.items()}
        parts.append(Capture(step, numbers, infos=_INFOS))
        if step % 10 == 0:
            parts.append(Capture(step, {"a.weight": {"update_ratio": ratio}}, infos=_INFOS))
    return parts


@pytest.mark.parametrize("rule", [MetricNotImproving(), LearningRate()])
@pytest.mark.parametrize(
    ("gradients", "scale", "advice"),
    [
        ([0.2, 0.25], 65536.0, "scaler.unscale_(optimizer) before clip_grad_norm_: gradients were clipped at 100 %"),
        ([3e4, 4e4], None, "a higher limit of the clipping, or none: gradients were clipped at 100 % of the steps"),
        ([0.2, 0.25], None, ""),
    ],
)
def test_advice_is_checked_against_the_clipping(
    rule: MetricNotImproving | LearningRate, gradients: list[float], scale: float | None, advice: str
) -> None:
    before, after = clip([(scale or 1.0) * gradient for gradient in gradients], 1.0)
    found = [verdict for _, verdict in verdicts(rule, run(before, after, scale)) if isinstance(verdict, Fired)]
    assert found
    assert found[-1].suggestion.startswith(advice or "a ")
    assert ("higher" in found[-1].suggestion and "rate" in found[-1].suggestion) == (not advice)


def test_gradients_that_are_unscaled_first_are_clipped_a_little() -> None:
    before, after = clip([2.0, 1.0], 1.0)
    found = [
        each for _, each in verdicts(LearningRate(), run(before, after, None, ratio=5e-7)) if isinstance(each, Fired)
    ]
    assert found[-1].suggestion.startswith("a learning rate higher by")


def test_a_loss_that_has_converged_needs_no_higher_rate() -> None:
    parts = run(1.0, 1.0, None, ratio=5e-7)
    assert any(isinstance(verdict, Fired) for _, verdict in verdicts(LearningRate(), parts))
    infos = {"cross_entropy_output_0": _INFOS["cross_entropy_output_0"]}
    converged = [
        Capture(part.step, {"cross_entropy_output_0": {"value": 2.0 if part.step == 0 else 0.0}}, infos=infos)
        if isinstance(part, Capture) and "cross_entropy_output_0" in part.values
        else part
        for part in parts
    ]
    assert not any(isinstance(verdict, Fired) for _, verdict in verdicts(LearningRate(), converged))
