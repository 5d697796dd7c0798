"""gradient_clipping: clipping at too many steps, or large norms without clipping."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.gradient_clipping import GradientClipping
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def words(*steps: dict[str, float], prefix: str = "", **parameters: float) -> list[str]:
    parts = [
        Capture(step, {prefix + name: {"value": value} for name, value in values.items()})
        for step, values in enumerate(steps)
    ]
    return [type(verdict).__name__ for _, verdict in verdicts(GradientClipping(**parameters), parts)]


def test_clear_at_its_share_and_fired_above() -> None:
    clipped, free = {"gradient_clipped": 1.0}, {"gradient_clipped": 0.0}
    assert words(clipped, clipped, clipped, window=4) == ["Undecided", "Undecided", "Fired"]
    assert words(free, clipped, free, free, clipped, clipped, window=4) == ["Clear"] * 6
    assert words(clipped, share_threshold=0.0, window=1) == ["Fired"]
    assert words(*[clipped] * 5, share_threshold=1.0, window=3) == ["Clear"] * 5


def test_a_large_norm_fires_without_clipping() -> None:
    assert words({"gradient_norm": 1000.0}) == ["Clear"]
    assert words({"gradient_norm": math.nextafter(1000.0, 2000)}) == ["Fired"]
    assert words({"gradient_norm": math.inf}) == ["Fired"]
    assert words({"gradient_norm": 2000.0, "gradient_clipped": 0.0}) == ["Clear"]


def test_each_optimizer_is_evaluated_separately() -> None:
    both = {"Adam/gradient_norm": 5000.0, "SGD/gradient_norm": 1.0, "SGD/gradient_clipped": 1.0}
    ((_, fired),) = verdicts(GradientClipping(), [Capture(0, {name: {"value": each} for name, each in both.items()})])
    assert isinstance(fired, Fired)
    assert fired.tensors == ("Adam/gradient_norm",)


def test_nan_is_not_evaluated() -> None:
    assert words({"gradient_norm": math.nan}) == ["Undecided"]
    assert words({"gradient_norm": math.nan, "gradient_clipped": 0.0}) == ["Clear"]


def test_the_message_says_how_often_and_how_large() -> None:
    step = {"gradient_clipped": {"value": 1.0}, "gradient_norm_before_clipping": {"value": 12.5}}
    ((_, fired),) = verdicts(GradientClipping(window=1), [Capture(0, step)])
    assert isinstance(fired, Fired)
    assert (
        fired.message == "gradients were clipped at 1 of the last 1 saved steps; the norm before clipping is 12.5 now"
    )
    assert fired.evidence["gradient_norm_before_clipping"] == 12.5


def test_clear_is_undecided_with_incomplete_data() -> None:
    parts = [Capture(0, {"gradient_norm": {"value": 1.0}})]
    assert verdicts(GradientClipping(), parts) == [(0, Clear())]
    assert isinstance(verdicts(GradientClipping(), parts, is_incomplete=True)[0][1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="share_threshold must be a number >= 0 and <= 1"):
        GradientClipping(share_threshold=1.5)
    with pytest.raises(ConfigurationError, match="window must be an integer >= 1, not 0"):
        GradientClipping(window=0)
