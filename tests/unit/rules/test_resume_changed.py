"""resume_changed: what a resumed process has, beside what was captured before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rule_scenarios import captured

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.resume_changed import ResumeChanged
from leadline.statistics.bits import fingerprints
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

RESUMED = 20
INFOS = {
    "loss": TensorInfo("loss", ("losses",), ()),
    "AdamW/lr": TensorInfo("AdamW/lr", ("hyperparameters",), ()),
    "GradScaler/scale": TensorInfo("GradScaler/scale", ("hyperparameters",), ()),
    "Net_input_0": TensorInfo("Net_input_0", ("inputs",), (4, 3)),
    "Net_input_1": TensorInfo("Net_input_1", ("inputs",), (4, 1)),
    "AdamW/exp_avg_sq/moment_norm": TensorInfo("AdamW/exp_avg_sq/moment_norm", ("checks",), ()),
    "process/resumed": TensorInfo("process/resumed", ("checks",), ()),
    "process/new_state": TensorInfo("process/new_state", ("checks",), ()),
}


def falling(step: int) -> float:
    return 0.1 * math.exp(-0.095 * step)


def rising(step: int) -> float:
    return 1e-3 * (1 + step)


def judge(
    *,
    rate: float = 0.01,
    loss: float = 0.3,
    scale: float = 1024.0,
    new_state: float = 0.0,
    moments: float = 0.4,
    batch: int = RESUMED,
    second: bool = False,
    losses: int = 20,
    rates: Callable[[int], float] = lambda step: 0.01,
) -> list[Verdict]:
    """Return the verdicts on a run that had a rate of 0.01, a loss of 0.3 and a scale of 1024, at first of 65536."""
    parts: list[Part] = []
    for step in range(RESUMED + losses):
        is_new = step >= RESUMED
        outlier = 5.0 if step in (RESUMED - 3, RESUMED + 1) and loss != 0.3 else 1.0
        values = {"loss": {"value": (loss if is_new else 0.3) * outlier}}
        if step in (0, 5) or step % 10 == 0:
            values |= {"AdamW/lr": {"value": rate if is_new else rates(step)}}
            values |= {"GradScaler/scale": {"value": scale if is_new else 1024.0 if step else 65536.0}}
            values |= {"AdamW/exp_avg_sq/moment_norm": {"value": moments if is_new else 0.5}}
        if step == RESUMED:
            values |= {"process/resumed": {"value": 1.0}, "process/new_state": {"value": new_state}}
        parts.append(Capture(step, values, infos=INFOS))
        if step < 6 or step == RESUMED:
            data = np.random.default_rng(batch if step == RESUMED else step).normal(size=(4, 3))
            arrays = {"Net_input_0": {"fingerprints": fingerprints(data).tolist()}}
            if second:
                arrays["Net_input_1"] = {"fingerprints": fingerprints(np.full((4, 1), float(step))).tolist()}
            parts.append(ArrayStatistics(step, arrays, infos=INFOS))
    return [verdict for _, verdict in verdicts(ResumeChanged(), parts)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"new_state": 1.0}, "the optimizer had counted no step"),
        ({"rate": 0.1}, "AdamW/lr is 0.1 (at step 10 it was 0.01)"),
        ({"rate": 1e-3, "rates": rising}, "AdamW/lr is 0.001 (at step 10 it was 0.011)"),
        ({"rate": 0.1, "rates": falling}, "AdamW/lr is 0.1 (at step 10 it was 0.0387)"),
        ({"scale": 65536.0}, "GradScaler/scale is 65,536 (at step 10 it was 1,024)"),
        ({"moments": 0.0}, "the norm of AdamW/exp_avg_sq is 0 (at step 10 it was 0.5)"),
        ({"moments": 0.004}, "the norm of AdamW/exp_avg_sq is 0.004 (at step 10 it was 0.5)"),
        ({"loss": 2.5}, "loss is 2.5 (before, 0.3)"),
        ({"loss": 2.5, "new_state": 1.0}, "the optimizer had counted no step and loss is 2.5 (before, 0.3)"),
    ],
)
def test_what_began_anew_is_named_at_the_fifth_loss(changes: dict[str, Any], words: str) -> None:
    results = judge(**changes)
    fired = [(at, verdict) for at, verdict in enumerate(results) if isinstance(verdict, Fired)]
    ((_, found),) = fired
    assert found.message == f"resumed at step 20, and not as it was: {words}"
    assert found.since_step == RESUMED
    assert isinstance(results[-1], Clear)
    assert not any(isinstance(verdict, Fired) for verdict in judge(**changes, losses=4))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rate": 1e-6},
        {"rate": 0.0015, "rates": falling},
        {"rate": 0.03, "rates": rising},
        {"rate": 0.019},
        {"loss": 0.1},
        {"loss": 0.59},
        {"moments": 0.006},
        {"moments": 50.0},
        {"scale": 2048.0},
        {"scale": 257.0},
    ],
)
def test_what_schedules_batches_and_scalers_do_is_clear(changes: dict[str, Any]) -> None:
    results = judge(**changes)
    assert not any(isinstance(verdict, Fired) for verdict in results)
    assert results[-1] == Clear()
    assert {type(verdict) for verdict in results[:20]} == {NotApplicable}
    assert isinstance(results[RESUMED + 2], Undecided)


@pytest.mark.parametrize(("batch", "is_remarked"), [(0, True), (3, True), (6, False), (RESUMED, False)])
def test_data_that_begin_anew_are_remarked(batch: int, is_remarked: bool) -> None:
    last = judge(batch=batch)[-1]
    assert isinstance(last, Clear)
    said = f"was that of step {batch:,}: the data started over" in "".join(last.product.get("remarks", []))
    assert said is is_remarked


def test_a_batch_that_differs_in_another_input_is_not_remarked() -> None:
    assert judge(batch=0, second=True)[-1] == Clear()


def judge_loaded(**first: float) -> list[Verdict]:
    """Return the verdicts on a run whose optimizer went on from a state of 100 steps, known from step 10 on."""
    loaded = {"lr": 0.01, "steps": 100.0, "norm": 0.5}
    values = {f"AdamW/loaded_state/{part}": {"value": value} for part, value in loaded.items()}
    now = {**loaded, **first}
    started_over = now.pop("started_over", 0.0)
    values |= {f"AdamW/first_state/{part}": {"value": value} for part, value in now.items() if not math.isnan(value)}
    values |= {"AdamW/schedule_started_over": {"value": started_over}}
    infos = {name: TensorInfo(name, ("checks",), ()) for name in values} | INFOS
    parts = [
        Capture(step, {"loss": {"value": 0.3}, **(values if step % 10 == 0 and step else {})}, infos=infos)
        for step in range(31)
    ]
    return [verdict for _, verdict in verdicts(ResumeChanged(), parts)]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"steps": 0.0, "norm": 0.0}, "it counts 0 steps in place of 100 and the norm of its moments is 0 in place of"),
        ({"steps": math.nan}, "it counts 0 steps in place of 100"),
        ({"norm": 0.2}, "the norm of its moments is 0.2 in place of 0.5"),
        ({"lr": 1e-4, "started_over": 1.0}, "its learning rate is 0.0001 in place of 0.01, and its schedule counts no"),
        (
            {"lr": 0.1, "started_over": 1.0},
            "its learning rate is 0.1 in place of 0.01, and its schedule counts no step",
        ),
    ],
)
def test_a_loaded_state_that_the_first_step_does_not_find_is_named_once(first: dict[str, float], words: str) -> None:
    results = judge_loaded(**first)
    (found,) = [verdict for verdict in results if isinstance(verdict, Fired)]
    assert found.message.startswith(f"the state of AdamW was loaded, and its first step found another one: {words}")
    assert isinstance(results[10], Fired)
    assert results[-1] == Clear()


@pytest.mark.parametrize(
    "first", [{}, {"lr": 1e-4}, {"lr": 0.1}, {"lr": 0.006, "started_over": 1.0}, {"norm": 0.49}, {"steps": 120.0}]
)
def test_a_loaded_state_that_is_found_again_is_clear(first: dict[str, float]) -> None:
    results = judge_loaded(**first)
    assert results[-1] == Clear()
    assert not any(isinstance(verdict, Fired) for verdict in results)


def test_a_run_that_was_not_resumed_is_none_to_judge() -> None:
    parts = [captured(step, {"loss": {"value": 0.3 + step}}) for step in range(30)]
    assert {type(verdict) for _, verdict in verdicts(ResumeChanged(), parts)} == {NotApplicable}
