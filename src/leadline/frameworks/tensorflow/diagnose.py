"""Inventory of a training for ``leadline doctor``: models, optimizers, kinds of layers, and what is not captured."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from leadline.frameworks.kit.inventory import HeldParameter, gap_entries, model_entry, optimizer_entry
from leadline.frameworks.tensorflow.capture import Optimized
from leadline.instrumentation.live_objects import live_instances
from leadline.records.doctor_report import Inventory, ModelEntry, OptimizerEntry, UncapturedEntry

_TPU_STRATEGIES: Final = ("TPUStrategy", "TPUStrategyV2")


def inventory(optimized: Sequence[Optimized]) -> Inventory:
    """Describe the optimizers that stepped, as plain values.

    Returns:
        ``models`` and ``optimizers``, see ``leadline.frameworks.kit.inventory``; ``module_kinds``: every
        kind of live layer.
    """
    return {
        "models": [_model(entry) for entry in optimized],
        "optimizers": [_optimizer(entry) for entry in optimized if entry.optimizer],
        "module_kinds": sorted({type(layer).__name__.lower() for layer in _layers()}),
    }


def coverage_gaps(
    refusals: Mapping[str, str], uncaptured: Mapping[str, str], *, has_stepped: bool
) -> list[UncapturedEntry]:
    """Return ``what`` is not captured, or only in part, and ``why``.

    Args:
        refusals: Why functions cannot be replayed, by their names.
        uncaptured: Why what the script uses is not captured.
        has_stepped: Whether a step was seen.
    """
    gaps = {name: f"gradients and activations are not captured: {why}" for name, why in refusals.items()}
    gaps |= uncaptured
    strategies = {type(strategy).__name__ for strategy in live_instances(tf.distribute.Strategy)}
    for name in sorted(strategies & set(_TPU_STRATEGIES)):
        gaps[name] = "its steps run on other devices: only what this process computes is captured"
    if not has_stepped:
        gaps["no training step"] = (
            "a step is a call of a tf.function that computes gradients of variables, or of an optimizer of Keras"
        )
    return gap_entries(gaps)


def _model(optimized: Optimized) -> ModelEntry:
    return model_entry(optimized.model, _held(optimized))


def _optimizer(optimized: Optimized) -> OptimizerEntry:
    variables = [named.name.rpartition("_")[2] for named in optimized.variables]
    return optimizer_entry(optimized.optimizer, _held(optimized), variables)


def _held(optimized: Optimized) -> list[HeldParameter]:
    devices = ("gpu" if tf.config.list_physical_devices("GPU") else "cpu",)
    variables = [named.source for named in optimized.parameters]
    return [
        HeldParameter(variable.shape, getattr(variable.dtype, "name", str(variable.dtype)), devices)
        for variable in variables
    ]


def layer_paths() -> list[str]:
    """Return the paths of all live layers of Keras, sorted."""
    paths = {getattr(layer, "path", None) for layer in _layers()}
    return sorted(path for path in paths if path)


def _layers() -> list[Any]:
    keras = sys.modules.get("keras")
    layer = getattr(getattr(keras, "layers", None), "Layer", None)
    return [] if layer is None else live_instances(layer)
