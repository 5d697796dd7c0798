"""The synthetic training of the judge benchmark: 500 tensors, captured by a plan for 40 rules."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from every_rule import EVERY_RULE

from leadline.config.options import parse_rule
from leadline.config.presets import merge, preset_items
from leadline.judge.rule_plan import named, plan, resolve_rules
from leadline.records.names import SCALAR_COLLECTIONS
from leadline.records.plan import CaptureItem, applies_to_mode
from leadline.records.series import TensorInfo
from leadline.statistics.definitions import is_vector
from leadline.testing.runs import ArrayStatistics, Capture, Part

LAYERS, UNITS, BATCH, CLASSES = 95, 64, 32, 10
_MORE_RULES = (
    "only_nan=exploding_tensor:only_nan=true",
    "patient=loss_not_decreasing:num_steps=100",
    "nearly_gone=vanishing_gradient:threshold=1e-9",
    "biases_unchanged=unchanged_tensor:collection_names=biases,num_steps=5",
    "large_updates=weight_update_ratio:large_threshold=1.0",
)
RULES = tuple(named(parse_rule(rule, os.getcwd())) for rule in (*EVERY_RULE, *_MORE_RULES)[:40])
"""All built-in rules, some of them twice with other parameters."""


def _tensors() -> tuple[TensorInfo, ...]:
    """Return parameters, gradients, activations and scalars."""
    layer_tensors = []
    for index in range(LAYERS):
        name = f"layers.{index}"
        layer_tensors += [
            TensorInfo(f"{name}.weight", ("weights",), (UNITS, UNITS)),
            TensorInfo(f"{name}.bias", ("biases",), (UNITS,)),
            TensorInfo(f"gradient/{name}.weight", ("gradients",), (UNITS, UNITS)),
            TensorInfo(f"gradient/{name}.bias", ("gradients",), (UNITS,)),
            TensorInfo(f"{name}.relu_output_0", ("layers", "relu_output"), (BATCH, UNITS)),
        ]
    activation_inputs = [
        TensorInfo(f"{kind}.{index}.{kind}_{end}_0", ("layers", f"{kind}_{end}"), (BATCH, UNITS))
        for kind, end, count in (("relu", "input", 4), ("tanh", "input", 4), ("sigmoid", "input", 3))
        for index in range(count)
    ]
    return (
        *layer_tensors,
        *activation_inputs,
        TensorInfo("embedding.embedding_input_0", ("layers", "embedding_input"), (BATCH, UNITS), "int64"),
        TensorInfo("Net_input_0", ("layers", "inputs"), (BATCH, 3, 8, 8)),
        TensorInfo("Net_output_0", ("layers", "outputs"), (BATCH, CLASSES)),
        TensorInfo("CrossEntropyLoss_input_0", ("predictions",), (BATCH, CLASSES)),
        TensorInfo("CrossEntropyLoss_input_1", ("labels",), (BATCH,), "int64"),
        *(
            TensorInfo(name, (collection,), (), "float64")
            for name, collection in (
                ("CrossEntropyLoss_output_0", "losses"),
                ("accuracy", "metrics"),
                ("AdamW/lr", "hyperparameters"),
                ("AdamW/gradient_norm", "gradient_norms"),
                ("AdamW/gradient_norm_before_clipping", "gradient_norms"),
                ("AdamW/gradient_clipped", "gradient_norms"),
                ("AdamW/steps_without_zero_grad", "checks"),
                ("Net/train_steps_in_eval_mode", "checks"),
                ("Net/outside_optimizers", "checks"),
            )
        ),
    )


TENSORS = _tensors()
LOSS = "CrossEntropyLoss_output_0"
_INFOS = {info.name: info for info in TENSORS}
_GROUPS = ("parameters", "updates", "layers", "scalars")
"""The rows of one step, as the recorder writes them."""
_LEVELS = {
    "min": -0.5,
    "max": 0.5,
    "sum": 3.0,
    "mean": 0.01,
    "l1": 20.0,
    "l2": 4.0,
    "abs_mean": 0.02,
    "abs_max": 0.5,
    "std": 0.05,
    "variance": 0.9,
    "p5": -0.04,
    "p95": 0.04,
    "p0.5": -0.1,
    "p99.5": 0.1,
    "update_ratio": 1e-3,
    "batch_std": 0.3,
    "equals_0": 0.1,
    "unit_activity": 0.5,
    "unit_mean": 0.01,
    "unit_std": 1.0,
    "class_counts": 3.0,
    "confusion": 3.0,
}
"""Typical values of statistics in a healthy training; 0 for all others."""
_SCALAR_LEVELS = {"AdamW/lr": 1e-3, "AdamW/gradient_norm": 1.0, "AdamW/gradient_norm_before_clipping": 1.2}


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one group at a step, and their typical values."""

    names: tuple[tuple[str, str], ...]
    """(tensor, statistic)"""
    levels: np.ndarray[tuple[int], np.dtype[np.float64]]


class Training:
    """The records of a healthy training with a noisy loss; deterministic.

    Args:
        every: The interval of all statistics.
    """

    def __init__(self, every: int) -> None:
        self._items = _items(every)
        self._columns: dict[tuple[bool, ...], dict[str, _Columns]] = {}

    def parts(self, step: int, time_ns: int | None = None, *, loss: float | None = None) -> list[Part]:
        """Return the records of one step.

        Args:
            loss: Replaces the healthy value.
        """
        scheduled = tuple(item.schedule.should_capture(step) for item in self._items)
        if scheduled not in self._columns:
            self._columns[scheduled] = _columns(list(compress(self._items, scheduled)))
        noise = np.random.default_rng(step)
        parts: list[Part] = []
        for group, columns in self._columns[scheduled].items():
            if group == "vectors":
                vectors = _vectors(columns, noise)
                # the row of these tensors is in the group of the layers
                parts.insert(0, ArrayStatistics(step, vectors).raw)
                continue
            values = _values(columns, noise, step)
            if group == "scalars" and loss is not None:
                values[LOSS] = {"value": loss}
            parts.append(Capture(step, values, time_ns=time_ns, infos=_INFOS))
        return parts

    def all_parts(self, steps: int) -> Iterator[Part]:
        """Yield the records of a number of steps."""
        return (part for step in range(steps) for part in self.parts(step))


def _items(every: int) -> tuple[CaptureItem, ...]:
    """Return the plan of ``leadline run --preset standard`` with all the rules, at another interval."""
    preset = [
        item if item.schedule.every == 1 else replace(item, schedule=replace(item.schedule, every=every))
        for item in preset_items("standard")
    ]
    needs = plan(resolve_rules(RULES), ())
    items = merge(preset, (), needs, root=os.getcwd()).items
    return tuple(item for item in items if applies_to_mode(item, "train") and not item.raw)


def _columns(scheduled: Sequence[CaptureItem]) -> dict[str, _Columns]:
    columns: dict[str, dict[tuple[str, str], None]] = {}
    for info in TENSORS:
        collections = frozenset(info.collections)
        for item in scheduled:
            if item.selects(info.name, collections):
                for statistic in filter(lambda name: _has(info, name), item.statistics):
                    columns.setdefault(_group(info, statistic), {})[info.name, statistic] = None
    order = (*_GROUPS, "vectors")
    return {
        group: _Columns(tuple(columns[group]), np.array([_level(*column) for column in columns[group]]))
        for group in sorted(columns, key=order.index)
    }


def _has(info: TensorInfo, statistic: str) -> bool:
    is_scalar = bool(SCALAR_COLLECTIONS & set(info.collections)) or not info.shape
    if is_scalar or statistic == "value":
        return is_scalar and statistic == "value"
    return statistic != "confusion" or "labels" in info.collections


def _group(info: TensorInfo, statistic: str) -> str:
    if not info.shape:
        return "scalars"
    if is_vector(statistic):
        return "vectors"
    if statistic == "update_ratio":
        return "updates"
    return "parameters" if {"weights", "biases", "gradients"} & set(info.collections) else "layers"


def _level(name: str, statistic: str) -> float:
    if statistic.startswith("unit_within_"):
        return 1.0
    return _SCALAR_LEVELS.get(name, 0.0) if statistic == "value" else _LEVELS.get(statistic, 0.0)


def _values(columns: _Columns, noise: np.random.Generator, step: int) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    numbers = (columns.levels * noise.normal(1.0, 0.02, len(columns.levels))).tolist()
    for (name, statistic), value in zip(columns.names, numbers, strict=True):
        is_sum = statistic == "checksum"
        values.setdefault(name, {})[statistic] = float(zlib.crc32(f"{name} {step}".encode())) if is_sum else value
    if LOSS in values:
        values[LOSS]["value"] = 0.2 + 2.1 * math.exp(-step / 1000) * float(noise.normal(1.0, 0.005))
    if "accuracy" in values:
        values["accuracy"]["value"] = 1.0 - 0.9 * math.exp(-step / 1000) * float(noise.normal(1.0, 0.01))
    return values


def _vectors(columns: _Columns, noise: np.random.Generator) -> Mapping[str, Mapping[str, object]]:
    vectors: dict[str, dict[str, object]] = {}
    for (name, statistic), level in zip(columns.names, columns.levels, strict=True):
        values = level * noise.uniform(0.8, 1.2, _shape(name, statistic))
        vectors.setdefault(name, {})[statistic] = np.diag(np.diag(values)) if statistic == "confusion" else values
    return vectors


def _shape(name: str, statistic: str) -> tuple[int, ...]:
    if statistic in ("class_counts", "confusion"):
        return (CLASSES,) * (2 if statistic == "confusion" else 1)
    return (_INFOS[name].shape[1],)
