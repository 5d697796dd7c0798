"""diverging_loss: losses that rise above guessing, beside numpy, and losses that rise soundly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from leadline.errors import ConfigurationError
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.diverging_loss import DivergingLoss
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

Floats = npt.NDArray[np.float64]
LOSS = "cross_entropy_output_0"
GUESS = math.log(10)
STEPS = np.arange(400)


def noisy(values: Floats, *, seed: int = 0, noise: float = 0.1) -> Floats:
    """Return values with noise of which each part keeps 0.7 of the last one, as that of losses of one model does."""
    random = np.random.default_rng(seed)
    parts = random.normal(0.0, noise, len(values))
    kept = np.zeros(len(values))
    for at in range(1, len(values)):
        kept[at] = 0.7 * kept[at - 1] + parts[at]
    return np.asarray(values * np.exp(kept))


def classified(name: str = LOSS, classes: int = 10) -> list[Part]:
    """Return labels of as many classes, of each alike."""
    call = name.replace("_output_0", "_input_1")
    infos = {call: TensorInfo(call, ("labels",), (100,), "int64")}
    return [ArrayStatistics(0, {call: {"class_counts": [10.0] * classes}}, infos=infos)]


def series(values: Sequence[float] | Floats, name: str = LOSS, **checks: float) -> list[Part]:
    infos = {name: TensorInfo(name, ("losses",), ())}
    infos |= {check: TensorInfo(check, ("checks",), ()) for check in checks}
    known: list[Part] = [Capture(1, {key: {"value": value} for key, value in checks.items()}, infos=infos)]
    parts = [Capture(step, {name: {"value": float(value)}}, infos=infos) for step, value in enumerate(values)]
    return [*(known if checks else []), *parts]


def judge(values: Sequence[float] | Floats, *, labels: list[Part] | None = None, **parameters: float) -> list[Verdict]:
    parts = [*(classified() if labels is None else labels), *series(values)]
    return [verdict for _, verdict in verdicts(DivergingLoss(**parameters), parts)][-len(values) :]


def fired(results: Sequence[Verdict]) -> list[int]:
    return [at for at, verdict in enumerate(results) if isinstance(verdict, Fired)]


def test_a_slow_rise_fires_where_numpy_says_so() -> None:
    values = noisy(2.3 * np.exp(STEPS[:120] / 60.0))
    start = float(np.median(values[:20]))

    def is_high(losses: Floats) -> bool:
        half = losses[len(losses) // 2 :]
        return bool(len(losses) >= 100 and np.sort(half)[len(half) // 4] > 1.5 * max(GUESS, start))

    expected = [at for at in range(120) if is_high(values[: at + 1])]
    assert expected
    assert expected[0] < 119
    results = judge(values)
    assert fired(results) == expected
    first = results[expected[0]]
    assert isinstance(first, Fired)
    half = values[: expected[0] + 1][(expected[0] + 1) // 2 :]
    assert first.evidence["level"] == pytest.approx(float(np.median(half)))
    assert first.evidence["start"] == pytest.approx(start)
    assert first.evidence["guess"] == pytest.approx(GUESS)
    assert first.since_step == (expected[0] + 1) // 2


RISES: Mapping[str, Floats] = {
    "a learning rate that is a little too high": 2.3 * np.exp(STEPS / 150.0),
    "gradients that are not divided": 2.1 + 2.0 * np.minimum(STEPS / 60.0, 1.0),
    "a fall before the rise": np.where(STEPS < 100, 2.3 - STEPS / 80.0, 1.05 * np.exp((STEPS - 100) / 80.0)),
    "a plateau far above guessing": np.where(STEPS < 50, 2.3 + STEPS / 20.0, 4.8),
}


@pytest.mark.parametrize("name", RISES)
@pytest.mark.parametrize("seed", range(3))
def test_a_divergence_is_found(name: str, seed: int) -> None:
    assert fired(judge(noisy(RISES[name], seed=seed)))


SOUND: Mapping[str, Floats] = {
    "a training that falls": 0.2 + 2.1 * np.exp(-STEPS / 60.0),
    "a curriculum that gets harder": 0.3 + 1.5 * STEPS / 400,
    "a new task every 100 steps": 0.1 + 2.6 * np.exp(-(STEPS % 100) / 20.0),
    "a warm-up that overshoots and recovers": np.where(
        STEPS < 60, 2.3 + STEPS / 8.0, 0.4 + 9.3 * np.exp((60 - STEPS) / 60)
    ),
    "label smoothing from step 200 on": np.where(STEPS < 200, 0.3, 0.9),
    "a growing penalty": 0.5 + 2.0 * (STEPS / 400) ** 2,
    "weights that are removed": np.where(STEPS < 200, 0.2, 0.2 + 2.2 * (STEPS - 200) / 200),
    "restarts of a cosine": 0.3 + 2.2 * np.abs(np.cos(STEPS * math.pi / 130)) * np.exp(-STEPS / 200),
    "a queue that fills": 1.0 + 2.2 * (1 - np.exp(-STEPS / 50.0)),
    "a spike that recovers": np.where((STEPS > 200) & (STEPS < 260), 12.0, 0.5),
    "an adversary that becomes stronger": 1.8 + 1.2 * STEPS / 400,
    "a poor start that improves slowly": 6.5 - 2.5 * STEPS / 400,
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", range(5))
def test_a_sound_rise_is_none(name: str, seed: int) -> None:
    results = judge(noisy(SOUND[name], seed=seed, noise=0.15))
    assert fired(results) == []
    assert results[-1] == Clear()


RISING = noisy(2.3 * np.exp(STEPS[:200] / 60.0))


@pytest.mark.parametrize("name", ["loss", "policy/loss", "kl_div_output_0", "l1_loss_output_0"])
def test_losses_without_a_level_of_guessing_are_not_evaluated(name: str) -> None:
    """Returns, energies, sums of terms with a weight that grows (KL annealing)."""
    verdict = verdicts(DivergingLoss(), series(RISING, name))[-1][1]
    assert isinstance(verdict, NotApplicable)


def test_a_loss_by_hand_is_compared_with_the_classes_of_its_only_call() -> None:
    kind = {f"log_likelihood/{facts.KIND}": float(LossKind.LOG_LIKELIHOOD), f"log_likelihood/{facts.CLASSES}": 10.0}
    assert isinstance(verdicts(DivergingLoss(), series(RISING, "loss", **kind))[-1][1], Fired)
    maximized = {**kind, f"log_likelihood/{facts.IS_NEGATED}": 1.0}
    assert not isinstance(verdicts(DivergingLoss(), series(RISING, "loss", **maximized))[-1][1], Fired)


def test_one_of_two_losses_that_compete_may_rise() -> None:
    other = series(noisy(2.0 * np.exp(-STEPS[:200] / 100.0)), "loss")
    assert not any(
        isinstance(each, Fired) for _, each in verdicts(DivergingLoss(), [*classified(), *series(RISING), *other])
    )
    also = series(RISING, "loss")
    assert isinstance(verdicts(DivergingLoss(), [*classified(), *series(RISING), *also])[-1][1], Fired)


def test_sums_are_not_compared() -> None:
    assert fired(judge(32 * RISING)) == []
    parts = {f"{LOSS}/{fact}": value for fact, value in zip(facts.ACCUMULATION, (4.0, 1.0, 1.0), strict=True)}
    results = verdicts(DivergingLoss(), [*classified(), *series(RISING, **parts)])
    assert not any(isinstance(verdict, Fired) for _, verdict in results)


@pytest.mark.parametrize(
    ("is_scaled", "advice"), [(0.0, "each loss divided by"), (1.0, "a tenth of the learning rate")]
)
def test_accumulation_without_a_division_is_advised(is_scaled: float, advice: str) -> None:
    parts = {f"{LOSS}/{fact}": value for fact, value in zip(facts.ACCUMULATION, (16.0, 0.0, is_scaled), strict=True)}
    verdict = verdicts(DivergingLoss(), [*classified(), *series(RISING, **parts)])[-1][1]
    assert isinstance(verdict, Fired)
    assert verdict.suggestion.startswith(advice)


def targets(*spreads: float) -> list[Part]:
    infos = {"mse_loss_input_1": TensorInfo("mse_loss_input_1", ("labels",), (8,))}
    return [
        Capture(50 * at, {"mse_loss_input_1": {"variance": spread, "mean": 0.0}}, infos=infos)
        for at, spread in enumerate(spreads)
    ]


def test_a_regression_is_compared_with_its_labels_unless_they_change_with_the_model() -> None:
    rising = series(1.0 * np.exp(STEPS[:200] / 40.0), "mse_loss_output_0")
    assert isinstance(verdicts(DivergingLoss(), [*targets(1.0, 1.0, 1.0, 1.0), *rising])[-1][1], Fired)
    of_a_critic = [*targets(1.0, 4.0, 20.0, 90.0), *rising]
    assert not any(isinstance(verdict, Fired) for _, verdict in verdicts(DivergingLoss(), of_a_critic))


def test_the_finding_closes_when_the_loss_has_come_back() -> None:
    values = np.concatenate([np.full(20, 2.3), np.full(100, 6.0), np.full(300, 1.0)])
    results = judge(values)
    assert fired(results)
    assert results[-1] == Clear()


def test_too_few_losses_and_boosters() -> None:
    assert [type(verdict) for verdict in judge(RISING[:99])] == [Undecided] * 99
    assert judge(RISING[:99])[-1] == Undecided("99 of 100 losses needed", stage="too few")
    name = "train-mlogloss"
    part = Capture(0, {name: {"value": 1.0}}, infos={name: TensorInfo(name, ("losses", "training_set"), ())})
    assert isinstance(verdicts(DivergingLoss(), [part])[-1][1], NotApplicable)


def test_values_that_are_not_finite_are_skipped() -> None:
    values = [value for rising in RISING for value in (math.nan, rising, math.inf)]
    assert fired(judge(values))


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="diverging_loss: factor must be"):
        DivergingLoss(factor=1.0)
