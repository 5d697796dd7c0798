"""Scenarios for the diagnostic rules: norms, loop checks, checksums, logits, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from leadline.records.loss_facts import (
    ACTIVATION,
    CONSECUTIVE_LINEAR,
    FACTS,
    IDENTICAL_UNITS,
    IGNORED_SHARE,
    KIND,
    OUT_OF_REACH_SHARE,
)
from leadline.records.metric_roles import KNOWN, role_collection
from leadline.records.series import TensorInfo
from leadline.testing.runs import ArrayStatistics, Capture, Part

INFOS: Final = {
    info.name: info
    for info in (
        *(TensorInfo(name, ("metrics", role_collection(role)), (), "float64") for name, role in KNOWN.items()),
        TensorInfo("loss", ("losses",), (), "float64"),
        TensorInfo("CrossEntropyLoss_output_0", ("losses",), (), "float64"),
        TensorInfo("accuracy", ("metrics",), (), "float64"),
        TensorInfo("gradient_norm", ("gradient_norms",), (), "float64"),
        TensorInfo("SGD/gradient_norm", ("gradient_norms",), (), "float64"),
        TensorInfo("SGD/gradient_norm_before_clipping", ("gradient_norms",), (), "float64"),
        TensorInfo("SGD/lr", ("hyperparameters",), (), "float64"),
        TensorInfo("GradScaler/scale", ("hyperparameters",), (), "float64"),
        TensorInfo("SGD/steps_without_zero_grad", ("checks",), (), "float64"),
        TensorInfo("Net/train_steps_in_eval_mode", ("checks",), (), "float64"),
        TensorInfo("Net/eval_calls_in_train_mode", ("checks",), (), "float64"),
        TensorInfo("Net/other_calls_with_dropout", ("checks",), (), "float64"),
        TensorInfo("Net/frozen_batch_norms", ("checks",), (), "float64"),
        TensorInfo("SGD/nonfinite_averages", ("checks",), (), "float64"),
        TensorInfo("SGD/initial_averages", ("checks",), (), "float64"),
        TensorInfo("1.running_var/nonfinite_average", ("checks",), (), "float64"),
        TensorInfo("1/initial_average", ("checks",), (), "float64"),
        TensorInfo("process/recompilations", ("checks",), (), "float64"),
        TensorInfo("f (a.py:7): x/recompilations", ("checks",), (), "float64"),
        TensorInfo("f (a.py:7)/recompile_limit", ("checks",), (), "float64"),
        TensorInfo("loss (a.py:1): y/recompilations", ("checks",), (), "float64"),
        TensorInfo("process/resumed", ("checks",), (), "float64"),
        TensorInfo("process/new_state", ("checks",), (), "float64"),
        TensorInfo("Adam/made_anew", ("checks",), (), "float64"),
        TensorInfo("Adam/state_not_loaded", ("checks",), (), "float64"),
        TensorInfo("Adam/schedule_not_loaded", ("checks",), (), "float64"),
        TensorInfo("Adam/exp_avg_sq/moment_norm", ("checks",), (), "float64"),
        TensorInfo("Adam/rate_share", ("checks",), (), "float64"),
        TensorInfo("Adam/schedule_steps", ("checks",), (), "float64"),
        TensorInfo("Adam/cosine_progress", ("checks",), (), "float64"),
        TensorInfo("a.weight/initialized_again", ("checks",), (), "float64"),
        TensorInfo("b.bias/initialized_again", ("checks",), (), "float64"),
        TensorInfo("lost.weight/outside_optimizers", ("checks",), (), "float64"),
        *(TensorInfo(f"cross_entropy/{fact}", ("checks",), (), "float64") for fact in FACTS),
        *(TensorInfo(f"squared_error/{fact}", ("checks",), (), "float64") for fact in FACTS),
        TensorInfo(f"loss/{CONSECUTIVE_LINEAR}", ("checks",), (), "float64"),
        TensorInfo(f"0+1/{CONSECUTIVE_LINEAR}", ("checks",), (), "float64"),
        TensorInfo(f"loss/{IDENTICAL_UNITS}", ("checks",), (), "float64"),
        TensorInfo(f"0+1/{IDENTICAL_UNITS}", ("checks",), (), "float64"),
        TensorInfo("a.weight", ("weights",), (4, 4), "float16"),
        TensorInfo("b.bias", ("biases",), (4,), "float32"),
        TensorInfo("gradient/a.weight", ("gradients",), (4, 4), "float16"),
        TensorInfo("gradient/b.bias", ("gradients",), (4,), "float32"),
        TensorInfo("Net_input_0", ("layers", "inputs"), (40, 2), "float32"),
        TensorInfo("a_input_0", ("layers", "linear_input"), (40, 2), "float32"),
        TensorInfo("a_output_0", ("layers", "linear_output"), (8, 4), "float32"),
        TensorInfo("Net_output_0", ("layers", "outputs"), (8, 2), "float32"),
        TensorInfo("CrossEntropyLoss_input_0", ("predictions",), (8, 2), "float32"),
        TensorInfo("CrossEntropyLoss_input_1", ("labels",), (8,), "int64"),
    )
}
"""The tensors of these scenarios."""

_NAN, _INFINITE = float("nan"), float("inf")
_LOSSES = st.sampled_from([1.0, 1.0, 1.1, 0.9, 0.4, 3.0, 100.0, -1.0, _NAN, _INFINITE])
_NORMS = st.sampled_from([1.0, 1.0, 2.0, 0.0, 11.0, 500.0, _NAN, _INFINITE])
_COUNTS = st.sampled_from([0.0, 0.0, 1.0, 4.0, 5.0, 9.0, 10.0, 30.0])
_BAD = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
_SUMS = st.sampled_from([17.0, 17.0, 17.0, 23.0])
_SIZES = st.sampled_from([0.5, 1.0, 49.0, 51.0, 60.0, 40000.0, _NAN])
_RATIOS = st.sampled_from([0.0, 1e-7, 1e-6, 1e-3, 0.1, 0.2, 5.0, _NAN, _INFINITE])
_RATES = st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.2])
_SCALES = st.sampled_from([65536.0, 1.0, 0.5, _NAN])
_STDS = st.sampled_from([0.0, 1e-7, 1e-5, 0.3, _NAN])
_ACTIVATIONS = st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0, 6.0, _NAN])
_SHARES = st.sampled_from([0.0, 0.1, 0.2, 1.0, _NAN])
_LOWEST = st.sampled_from([0.0, -1.0])
_LARGEST = st.sampled_from([0.05, 0.05, 1.0, 200.0, 200.0])
_METRICS = st.sampled_from([0.1, 0.5, 0.5, 0.6, 0.9, _NAN])


def captured(
    step: int,
    values: Mapping[str, Mapping[str, float]],
    *,
    mode: str = "train",
    mode_step: int | None = None,
    worker: str = "rank0-1",
) -> Capture:
    """Return a capture of tensors of ``INFOS``."""
    return Capture(step, values, worker=worker, mode=mode, mode_step=mode_step, infos=INFOS)


def given_loss(step: int, call: str, numbers: Mapping[str, float], **stamp: Any) -> Capture:
    """Return a capture of facts about a loss call."""
    infos = {f"{call}/{fact}": TensorInfo(f"{call}/{fact}", ("checks",), (), "float64") for fact in numbers}
    return Capture(step, {f"{call}/{fact}": {"value": value} for fact, value in numbers.items()}, infos=infos, **stamp)


def skipped(step: int, *, worker: str = "rank0-1", mode_step: int | None = None) -> Capture:
    """Return the row of a step that a gradient scaler skipped."""
    return Capture(step, {"clock": {"skipped": 1.0}}, worker=worker, mode_step=mode_step)


@st.composite
def diagnostic_scenarios(draw: st.DrawFn) -> list[Part]:
    """Generate a run of one or two workers with losses at every step, and other data at some steps."""
    workers = draw(st.sampled_from([("rank0-1",), ("rank0-1", "rank1-2")]))
    every = draw(st.integers(1, 3))
    parts: list[Part] = []
    mode_steps = {"train": 0, "eval": 0}
    for step in range(draw(st.integers(0, 16))):
        mode = "eval" if draw(st.integers(0, 5)) == 0 else "train"
        is_skipped = mode == "train" and draw(st.integers(0, 3)) == 0
        for worker in workers:
            stamp = {"worker": worker, "mode": mode, "mode_step": mode_steps[mode]}
            parts += _numbers(draw, step, stamp)
            if mode == "train" and step % every == 0:
                parts += _tensors(draw, step, stamp)
        if is_skipped:
            parts.append(skipped(step, mode_step=mode_steps[mode]))
        mode_steps[mode] += 1
    return parts


def _numbers(draw: Any, step: int, stamp: Mapping[str, Any]) -> list[Part]:
    values = {"loss": draw(_LOSSES), "CrossEntropyLoss_output_0": draw(_LOSSES), "accuracy": draw(_METRICS)}
    if stamp["mode"] == "eval":
        values["Net/eval_calls_in_train_mode"] = draw(_COUNTS)
        values["Net/other_calls_with_dropout"] = draw(_COUNTS)
    else:
        values["gradient_norm" if draw(st.booleans()) else "SGD/gradient_norm"] = draw(_NORMS)
        if draw(st.booleans()):
            values["SGD/gradient_norm_before_clipping"] = draw(_NORMS)
        if draw(st.booleans()):
            values |= {"SGD/lr": draw(_RATES), "GradScaler/scale": draw(_SCALES)}
            values |= {"SGD/steps_without_zero_grad": draw(_COUNTS), "Net/train_steps_in_eval_mode": draw(_COUNTS)}
            values |= {"Adam/made_anew": draw(_COUNTS), "Adam/state_not_loaded": draw(_BAD)}
            values |= {"Adam/exp_avg_sq/moment_norm": draw(_COUNTS)}
            values |= {"Adam/rate_share": draw(_SHARES), "Adam/cosine_progress": draw(_COUNTS)}
            values |= {"SGD/nonfinite_averages": draw(_COUNTS), "SGD/initial_averages": draw(_COUNTS)}
            if draw(st.booleans()):
                values |= {"1.running_var/nonfinite_average": 1.0, "1/initial_average": 1.0}
            values |= {"process/recompilations": draw(_COUNTS), "f (a.py:7): x/recompilations": draw(_COUNTS)}
            if draw(st.booleans()):
                values |= {"process/resumed": 1.0, "process/new_state": draw(_BAD)}
            if draw(st.booleans()):
                values["a.weight/initialized_again"] = draw(_COUNTS)
            values["lost.weight/outside_optimizers"] = draw(st.sampled_from([0.0, 1.0, 1.0]))
        if draw(st.booleans()):
            values |= _facts(draw)
    return [captured(step, {name: {"value": value} for name, value in values.items()}, **stamp)]


def _facts(draw: Any) -> dict[str, float]:
    """Return facts about a cross entropy, a squared error or neither, and about linear layers."""
    values = {}
    for fact in (CONSECUTIVE_LINEAR, IDENTICAL_UNITS):
        values[f"loss/{fact}"] = draw(st.sampled_from([0.0, 0.0, 1.0]))
        if values[f"loss/{fact}"]:
            values[f"0+1/{fact}"] = 1.0
    if draw(st.booleans()):
        values |= {f"cross_entropy/{KIND}": draw(st.sampled_from([0.0, 1.0, 1.0]))}
        values[f"cross_entropy/{ACTIVATION}"] = draw(_ACTIVATIONS)
        values[f"cross_entropy/{IGNORED_SHARE}"] = draw(st.sampled_from([0.0, 0.5, 1.0, 1.0]))
    if draw(st.booleans()):
        values |= {f"squared_error/{KIND}": 6.0, f"squared_error/{ACTIVATION}": draw(_ACTIVATIONS)}
        values[f"squared_error/{OUT_OF_REACH_SHARE}"] = draw(_SHARES)
    return values


def _tensors(draw: Any, step: int, stamp: Mapping[str, Any]) -> list[Part]:
    forward = {
        "Net_input_0": {"nonfinite_count": draw(_BAD), "min": draw(_LOWEST), "abs_max": draw(_LARGEST)},
        "a_input_0": {"abs_max": draw(_LARGEST)},
        "a_output_0": {"nonfinite_count": draw(_BAD)},
        "Net_output_0": {"nonfinite_count": draw(_BAD), "batch_std": draw(_STDS), "abs_mean": draw(_STDS)},
        "CrossEntropyLoss_input_0": {"abs_max": 1.0},
        "CrossEntropyLoss_input_1": {"variance": draw(_STDS)},
    }
    weights = {
        "a.weight": {
            "nonfinite_count": draw(_BAD),
            "checksum": draw(_SUMS),
            "abs_max": draw(_SIZES),
            "p0.5": -draw(_SIZES),
            "p99.5": draw(_SIZES),
        },
        "b.bias": {"nonfinite_count": draw(_BAD), "checksum": draw(_SUMS)},
    }
    updates = {name: {"update_ratio": draw(_RATIOS)} for name in weights if draw(st.booleans())}
    gradients = {
        f"gradient/{name}": {"nonfinite_count": draw(_BAD), "abs_max": draw(_NORMS), "checksum": draw(_SUMS)}
        for name in weights
        if draw(st.integers(0, 2)) == 0
    }
    arrays = {
        "Net_input_0": {"unit_mean": draw(_units()), "unit_std": draw(_units())},
        "CrossEntropyLoss_input_1": {"class_counts": draw(_units())},
    }
    rows = [forward, {**gradients, **weights}, updates]
    vectors = ArrayStatistics(step, arrays, **stamp, infos=INFOS)
    return [*(captured(step, row, **stamp) for row in rows if row), vectors]


def _units() -> st.SearchStrategy[list[float]]:
    return st.lists(st.sampled_from([1.0, 2.0, 0.0, 0.001, 30.0, 5000.0, _NAN]), min_size=2, max_size=2)
