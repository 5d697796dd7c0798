"""generalization_gap against a plain loop over whole epochs, without windows or memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median

from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.records.series import TensorInfo
from leadline.records.verdict import Fired
from leadline.rules.losses.generalization_gap import GeneralizationGap
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

Epochs = Sequence[tuple[float, float]]


def noise(values: Sequence[float]) -> float:
    steps = [b - a for a, b in pairwise(values)]
    return 1.4826 * median(abs(step - median(steps)) for step in steps) / math.sqrt(2) if steps else 0.0


def is_overfitting(epochs: Epochs) -> bool:
    """Whether so many epochs, each with its training and validation loss, show overfitting."""
    trained, validated = [train for train, _ in epochs], [validation for _, validation in epochs]
    if len(epochs) < 8 or len(set(validated)) == 1:  # what never changes is a copy that stands still
        return False
    levels = [
        (at + 1, mean(validated[at - 2 : at + 1]), median(trained[at - 2 : at + 1])) for at in range(2, len(epochs))
    ]
    start, now = max(trained[0], validated[0]), median(trained[-3:])
    gained, lowest = start - now, min(level for _, level, _ in levels)
    if gained <= 5 * max(noise(trained), noise(validated)) or start - trained[0] > (trained[0] - now) / 2:
        return False
    passed_on = (start - lowest) / gained
    least = max(2 * noise(validated), 0.02 * gained)
    count, _, then = next(each for each in levels if each[1] <= lowest + least)
    late = (start if passed_on < 0.1 else then) - now
    is_long = len(epochs) - count >= max(5, count / 2)
    return passed_on < 0.5 and is_long and late > max(0.1 * gained, 5 * noise(trained))


@st.composite
def trainings(draw: st.DrawFn) -> Epochs:
    """Draw losses that fall to a floor each, with noise."""
    fall, floor = draw(st.floats(0.5, 0.95)), draw(st.sampled_from([0.0, 0.5, 1.5, 2.0, 2.3]))
    size = draw(st.sampled_from([0.0, 0.01, 0.1]))
    numbers = st.floats(-1, 1).map(lambda number: round(number, 3))
    count = draw(st.integers(1, 24))
    return [
        (2.3 * fall**at + size * draw(numbers), floor + (2.3 - floor) * fall**at + size * draw(numbers))
        for at in range(count)
    ]


@settings(deadline=None, max_examples=150)
@given(trainings())
def test_equals_a_plain_loop(epochs: Epochs) -> None:
    infos = {"loss": TensorInfo("loss", ("losses",), ())}
    parts = [
        Capture(2 * at + place, {"loss": {"value": value}}, mode=mode, infos=infos)
        for at, epoch in enumerate(epochs)
        for place, (mode, value) in enumerate(zip(("train", "eval"), epoch, strict=True))
    ]
    parts.append(Capture(2 * len(epochs), {"loss": {"value": 1.0}}, infos=infos))
    told = [isinstance(verdict, Fired) for _, verdict in verdicts(GeneralizationGap(), parts)]
    assert [told[2 * at + 2] for at in range(len(epochs))] == [
        is_overfitting(epochs[: at + 1]) for at in range(len(epochs))
    ]
