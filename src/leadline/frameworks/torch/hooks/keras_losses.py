"""Keras on PyTorch: each loss is one loss call, whatever functions of PyTorch it calls; fitted models are trained."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import torch

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.keras.loss_facts import facts_of, has_class_indices, is_single_loss, kind_of, name_of
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.activation_trace import ActivationTrace
from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.capture.forward_row import untracked_in_full_precision
from leadline.frameworks.torch.capture.loss_inputs import LossInputs
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.instrumentation.guard import Facts, Guard
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind

Original = Callable[..., Any]
_OF_CLASSES: Final = "cross_entropy"
_LIKE: Final = {
    LossKind.BINARY_CROSS_ENTROPY: "binary_cross_entropy",
    LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS: "binary_cross_entropy_with_logits",
    LossKind.CATEGORICAL_CROSS_ENTROPY: _OF_CLASSES,
    LossKind.CROSS_ENTROPY: _OF_CLASSES,
}
"""The losses of PyTorch whose predictions are counted alike."""


class _Local(threading.local):
    model: Any = None
    """The model whose loss is being computed."""


class KerasLosses:
    """Replaces ``keras.losses.Loss.__call__`` as soon as Keras is imported.

    A model of which Keras computes a loss while gradients are enabled is a trained one: its passes in eval mode are
    those of an evaluation.
    """

    def __init__(
        self,
        forward: ForwardHooks,
        inputs: LossInputs,
        guard: Guard,
        facts: Facts,
        on_trained: Callable[[Sequence[torch.nn.Module]], None],
    ) -> None:
        """
        Args:
            on_trained: Called with models that Keras trains, once each.
        """
        self._forward = forward
        self._inputs = inputs
        self._guard = guard
        self._on_trained = on_trained
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._facts, self._accuracy = facts.of("facts about loss calls are"), facts.of("accuracies are")
        self._local = _Local()
        self._patches = Patches()
        self._imports: ImportWatch | None = None
        self._modules: Final[dict[str, Callable[[ModuleType], None]]] = {
            "keras.src.losses.loss": lambda module: self._patches.replace(module.Loss, "__call__", self._make_call),
            "keras.src.trainers.trainer": lambda module: self._patches.replace(
                module.Trainer, "compute_loss", self._make_compute_loss
            ),
        }

    def install(self) -> None:
        """Wait for the modules of Keras."""
        self._imports = ImportWatch(self._modules, self._guard.wrap(lambda name, module: self._modules[name](module)))
        self._imports.install()

    def uninstall(self) -> None:
        """Restore the methods."""
        if self._imports is not None:
            self._imports.uninstall()
        self._patches.restore()

    def _make_compute_loss(self, original: Original) -> Original:
        local, trained, guard, add = self._local, self._trained, self._guard, self._add_trained

        def compute_loss(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(model, torch.nn.Module):  # of another backend, in a script that imports PyTorch, too
                return original(model, *args, **kwargs)
            local.model = model
            if torch.is_grad_enabled() and model not in trained:
                guard.run(add, model)
            try:
                return original(model, *args, **kwargs)
            finally:
                local.model = None

        return compute_loss

    def _add_trained(self, model: Any) -> None:
        self._trained.add(model)
        if model.training:
            self._on_trained([model])

    def _make_call(self, original: Original) -> Original:
        forward, guard = self._forward, self._guard

        def __call__(loss: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            if not is_single_loss(loss) or not _is_observed(y_true) or not _is_observed(y_pred):
                return original(loss, y_true, y_pred, sample_weight)
            name = name_of(loss)
            values = (y_pred, y_true.long() if has_class_indices(loss) else y_true)
            token = guard.run(forward.before_call, name, values, {})
            guard.run(self._facts.call, self._add_facts, loss, y_true, y_pred, is_weighted=sample_weight is not None)
            forward.is_within_loss = True
            try:
                output = original(loss, y_true, y_pred, sample_weight)
            finally:
                forward.is_within_loss = False
            guard.run(forward.after_call, name, values, {}, output, token)
            guard.run(self._accuracy.call, self._add_accuracy, loss, token, *values)
            return output

        return __call__

    def _add_accuracy(self, loss: Any, stem: str | None, predictions: torch.Tensor, labels: torch.Tensor) -> None:
        kind = _LIKE.get(kind_of(loss) or LossKind.UNKNOWN)
        if stem is None or kind is None or (kind == _OF_CLASSES and predictions.dim() != 2):
            return  # Keras has the classes of further dimensions last, PyTorch in dimension 1
        with untracked_in_full_precision():
            if kind == _OF_CLASSES:
                labels = labels.reshape(-1) if has_class_indices(loss) else labels.float()
            self._forward.passes.add_accuracy(kind, stem, (predictions, labels), {})

    def _add_facts(self, loss: Any, labels: torch.Tensor, predictions: torch.Tensor, *, is_weighted: bool) -> None:
        if not self._inputs.is_active or predictions.grad_fn is None:
            return
        trace = ActivationTrace().follow((predictions.grad_fn, predictions.output_nr))
        with untracked_in_full_precision():
            found = facts_of(
                loss, labels, predictions.detach(), trace, model=self._local.model, is_weighted=is_weighted
            )
            if found is None:
                return
            computed = {fact: number_of(tensor) for fact, tensor in found.computed.items()}
        known: dict[str, Any] = {**found.known, facts.IS_SOFTMAX_OVER_BATCH: float(trace.is_softmax_over_batch)}
        known |= {fact: number for fact, number in computed.items() if number is not None and number == number}
        self._inputs.add_call(found.name, known)


def _is_observed(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_meta
