"""expert_balance: shares of the choices of a router, and experts without any."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.expert_balance import ExpertBalance
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

SCORES = TensorInfo("mlp.gate_output_0", ("layers",), (80, 8), "float32")
CHOSEN = TensorInfo("mlp.gate_output_1", ("layers",), (80, 2), "int64")
BALANCED = [20.0] * 8


def judge(
    *counts: Sequence[float],
    infos: Sequence[TensorInfo] = (SCORES, CHOSEN),
    first: int = 100,
    rule: ExpertBalance | None = None,
) -> Verdict:
    """Return the last verdict on captures of the same counts for each output, ten steps apart."""
    known = {info.name: info for info in infos}
    parts: list[Part] = []
    for step in range(first, first + 10 * len(counts), 10):
        parts.append(Capture(step, {name: {"max": 7.0} for name in known}, infos=known))
        one = [float(count) for count in counts[(step - first) // 10]]
        parts.append(ArrayStatistics(step, {name: {"class_counts": one} for name in known}, infos=known))
    (*_, (_, verdict)) = verdicts(rule or ExpertBalance(captures=3), parts)
    return verdict


def test_balanced_experts_are_clear() -> None:
    assert judge(*[BALANCED] * 3) == Clear()


def test_a_busy_expert_fires_above_its_bound() -> None:
    bound = [80.0, 20, 10, 10, 10, 10, 10, 10]
    assert judge(*[bound] * 3) == Clear()  # 4 times its fair share
    found = judge(*[[81.0, *bound[1:-1], 9.0]] * 3)
    assert isinstance(found, Fired)
    assert found.message.startswith("mlp.gate: expert 0 of 8 has 51 % of the choices, 4.05 times its fair share")
    assert found.tensors == ("mlp.gate",)


def test_experts_without_a_token_fire_above_their_bound() -> None:
    assert judge(*[[27, 27, 27, 27, 26, 26, 0, 0]] * 3) == Clear()
    found = judge(*[[32, 32, 32, 32, 32]] * 3)  # those at the end are known by the scores
    assert isinstance(found, Fired)
    assert found.evidence["without"] == 3


def test_of_scores_the_largest_of_each_token_counts() -> None:
    assert isinstance(judge(*[[80.0] + [0.0] * 7] * 3, infos=[SCORES]), Fired)
    assert isinstance(
        judge(*[BALANCED] * 3, infos=[TensorInfo(SCORES.name, ("layers",), (4, 20, 8), "float32")]), NotApplicable
    )
    assert isinstance(
        judge(*[[40.0, 40.0]] * 3, infos=[TensorInfo(SCORES.name, ("layers",), (80, 1), "float32")]), NotApplicable
    )


def test_the_latest_captures_count_from_step_100_on() -> None:
    assert isinstance(judge(*[BALANCED] * 2), Undecided)
    assert isinstance(judge(*[BALANCED] * 3, first=80), Undecided)
    assert judge([160.0], *[BALANCED] * 3) == Clear()
    few = [5.0, 0, 0, 0, 0, 0, 0, 0]
    assert judge(*[few] * 3) == Clear()


@pytest.mark.parametrize(
    "parameters", [{"factor": 1.0}, {"idle": 0.0}, {"idle": 1.0}, {"captures": 0}, {"tensor_regex": "("}]
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        ExpertBalance(**parameters)
