"""Checks of the training loop: stale gradients, modules in the wrong mode, parameters without an optimizer."""

from __future__ import annotations

import time
import weakref
from typing import Any

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.diagnose.module_modes import ModuleModes
from leadline.frameworks.torch.diagnose.stale_gradients import StaleGradients
from leadline.frameworks.torch.diagnose.unmanaged_parameters import UnmanagedParameters
from leadline.frameworks.torch.naming.module_registry import ModuleRegistry
from leadline.frameworks.torch.naming.parameter_names import (
    ParameterNames,
    clean_named_parameters,
    find_roots,
    parameters_of,
    unwrap,
)


class _OptimizerChecks:
    """Checks of one optimizer and the models that it updates."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, label: str, names: ParameterNames, registry: ModuleRegistry
    ) -> None:
        self.label = label
        roots = find_roots(parameters_of(optimizer), registry.outermost())
        self.name = " + ".join(type(unwrap(root)).__name__ for root in roots) or "model"
        self.modes = ModuleModes(roots)
        named = {
            names.prefix(root) + name: parameter for root in roots for name, parameter in clean_named_parameters(root)
        }
        self.unmanaged = UnmanagedParameters(named, optimizer)
        self.roots = [weakref.ref(root) for root in roots]


class LoopChecks:
    """Runs checks of negligible cost at each step, and reports the results when checks are captured.

    Names, all in the collection ``checks``: ``<optimizer>/steps_without_zero_grad``,
    ``<model>/train_steps_in_eval_mode``, ``<model>/eval_calls_in_train_mode`` (counts in a row) and
    ``<parameter>/outside_optimizers`` (1 or 0).
    """

    def __init__(self, names: ParameterNames, registry: ModuleRegistry, callbacks: StepCallbacks) -> None:
        self._names, self._registry, self._callbacks = names, registry, callbacks
        self.is_enabled = callbacks.captures_checks()
        """Whether checks are captured at any step; otherwise nothing is inspected."""
        self._stale_gradients = StaleGradients()
        self._models: weakref.WeakKeyDictionary[Any, _OptimizerChecks] = weakref.WeakKeyDictionary()

    def before_backward(self) -> None:
        """Handle the start of a backward pass."""
        start_ns = time.perf_counter_ns()
        self._stale_gradients.before_backward()
        self._callbacks.add_overhead(time.perf_counter_ns() - start_ns, start_ns)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Handle the start of an optimizer step; called after the callback of the same name."""
        start_ns = time.perf_counter_ns()
        self._stale_gradients.before_update(optimizer)
        model = self._models.get(optimizer)
        if model is None:
            with torch._C.DisableTorchFunction():
                model = self._models[optimizer] = _OptimizerChecks(
                    optimizer, self._label(optimizer), self._names, self._registry
                )
        model.modes.before_step()
        if self._callbacks.wants_checks():
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._callbacks.record_checks(self._results(optimizer, model))
        self._callbacks.add_overhead(time.perf_counter_ns() - start_ns, start_ns)

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Handle the end of an optimizer step."""
        start_ns = time.perf_counter_ns()
        self._stale_gradients.after_update(optimizer)
        self._callbacks.add_overhead(time.perf_counter_ns() - start_ns, start_ns)

    def call_without_gradients(self, called: torch.nn.Module) -> None:
        """Handle a call of an outermost module without gradients."""
        for model in list(self._models.values()):
            if any(reference() is called for reference in model.roots):
                model.modes.on_call_without_gradients()

    def _label(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the optimizer's class, with a number if another live optimizer has the same label."""
        kind, taken = type(optimizer).__name__, {model.label for model in self._models.values()}
        candidates = (kind, *(f"{kind}_{number}" for number in range(1, len(taken) + 2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def _results(self, optimizer: torch.optim.Optimizer, model: _OptimizerChecks) -> dict[str, float]:
        results: dict[str, float] = {}
        consecutive_steps = self._stale_gradients.consecutive_steps(optimizer)
        if consecutive_steps is not None:
            results[f"{model.label}/steps_without_zero_grad"] = float(consecutive_steps)
        if model.modes:
            results[f"{model.name}/train_steps_in_eval_mode"] = float(model.modes.steps_in_eval_mode)
            if model.modes.calls_in_train_mode is not None:
                results[f"{model.name}/eval_calls_in_train_mode"] = float(model.modes.calls_in_train_mode)
        for name, is_outside in model.unmanaged.find(list(self._models)).items():
            results[f"{name}/outside_optimizers"] = float(is_outside)
        return results
