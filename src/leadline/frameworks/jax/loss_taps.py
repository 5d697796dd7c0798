"""Taps at the losses of optax: what they are given, and what they return."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from leadline.frameworks.jax.tap import GivenToLoss, Tap, is_traced, tap_p
from leadline.frameworks.jax.watch import ProcessWatch
from leadline.frameworks.kit.loss_facts import is_outer, repeats_of_labels
from leadline.frameworks.patches import Patches
from leadline.records.loss_facts import LossKind

Original = Callable[..., Any]


class _Form(NamedTuple):
    """What a loss computes of predictions and labels, its first two parameters."""

    kind: LossKind
    has_numbers: bool = True
    """Whether its labels are numbers, not class indices or logarithms."""


_LOSSES: Final = {
    "huber_loss": _Form(LossKind.SMOOTH_ABSOLUTE_ERROR),
    "kl_divergence": _Form(LossKind.KL_DIV),
    "kl_divergence_with_log_targets": _Form(LossKind.KL_DIV, has_numbers=False),
    "l2_loss": _Form(LossKind.SQUARED_ERROR),
    "log_cosh": _Form(LossKind.SMOOTH_ABSOLUTE_ERROR),
    "safe_softmax_cross_entropy": _Form(LossKind.CROSS_ENTROPY),
    "sigmoid_binary_cross_entropy": _Form(LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS),
    "softmax_cross_entropy": _Form(LossKind.CROSS_ENTROPY),
    "softmax_cross_entropy_with_integer_labels": _Form(LossKind.CROSS_ENTROPY, has_numbers=False),
    "squared_error": _Form(LossKind.SQUARED_ERROR),
}


_SIDES: Final = ("predictions", "labels")


class LossTaps:
    """Taps the losses of optax where they are traced.

    Args:
        watch: Has the steps of the training.
    """

    def __init__(self, watch: ProcessWatch) -> None:
        self._watch = watch
        self._patches = Patches()
        self._groups = itertools.count()

    def follow_optax(self, module: ModuleType) -> None:
        """Tap the losses of optax, under both of their names."""
        for name, form in _LOSSES.items():
            for owner in (module.losses, module):
                self._patches.replace(owner, name, partial(self._make_loss, form), is_optional=True)

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()

    def _make_loss(self, form: _Form, original: Original) -> Original:
        signature = inspect.signature(original)

        def loss(*args: Any, **kwargs: Any) -> Any:
            if self._watch.steps is None:
                return original(*args, **kwargs)
            try:
                call = signature.bind(*args, **kwargs)
            except TypeError:  # the loss itself says so
                return original(*args, **kwargs)
            group = self._guarded(self._tap_inputs, form, call)
            self._guarded(_tap_values, original.__name__, call)
            result = original(*call.args, **call.kwargs)
            tapped = self._guarded(self._tap_result, group, result) if group is not None else None
            return result if tapped is None else tapped

        return loss

    def _guarded(self, tap: Callable[..., Any], *args: Any) -> Any:
        steps = self._watch.steps
        return self._watch.guard.call(steps.loss_facts_read.call, tap, *args) if steps is not None else None

    def _tap_inputs(self, form: _Form, call: inspect.BoundArguments) -> int | None:
        """Tap what a loss is given, in place; return the number of the call, None if nothing is traced."""
        first, second = list(call.signature.parameters)[:2]
        predictions, labels = call.arguments[first], call.arguments.get(second)
        if labels is None or not (is_traced(predictions) or is_traced(labels)):
            return None
        sizes, label_sizes = np.shape(predictions), np.shape(labels)
        axis = call.arguments.get("axis", -1)
        has_numbers = form.has_numbers and call.arguments.get("where") is None
        given = GivenToLoss(
            form.kind,
            (axis - len(sizes) if axis >= 0 else axis) if isinstance(axis, int) and sizes else None,
            has_numbers=has_numbers,
            is_outer=has_numbers and is_outer(label_sizes, sizes),
            repeats=repeats_of_labels(label_sizes, sizes) if has_numbers else 1,
        )
        group = next(self._groups)
        tap = Tap("loss_call", group, form.kind.name.lower(), given=given)
        tapped = tap_p.bind(predictions, labels, tap=tap)[0]
        if is_traced(predictions):
            call.arguments[first] = tapped
        return group

    def _tap_result(self, group: int, result: Any) -> Any:
        return tap_p.bind(result, tap=Tap("loss_result", group, "loss"))[0]


def _tap_values(name: str, call: inspect.BoundArguments) -> None:
    """Tap the predictions and the labels that a loss is given, to be captured as those of a layer."""
    kind = f"{name.replace('_', '')}_input"
    for at, (side, parameter) in enumerate(zip(_SIDES, call.signature.parameters, strict=False)):
        value = call.arguments.get(parameter)
        if is_traced(value):
            tap_p.bind(value, tap=Tap("layer", 0, f"{name}_input_{at}", (side, "layers", kind)))
