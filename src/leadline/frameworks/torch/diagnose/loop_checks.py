"""What the hooks notice of the loop itself: old gradients, modules in the wrong mode, parameters nobody updates."""

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
    find_roots,
    format_parameter_count,
    parameters_of,
    unwrap,
)


class _Model:
    """The models that one optimizer updates."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, label: str, names: ParameterNames, registry: ModuleRegistry
    ) -> None:
        self.label = label
        roots = find_roots(parameters_of(optimizer), registry.outermost())
        self.name = " + ".join(type(unwrap(root)).__name__ for root in roots) or "model"
        self.modes = ModuleModes(roots)
        named = {names.prefix(root) + name: each for root in roots for name, each in format_parameter_count(root)}
        self.outsiders = UnmanagedParameters(named, optimizer)
        self.roots = [weakref.ref(root) for root in roots]


class LoopChecks:
    """Notices at each step what costs next to nothing to notice, and tells it when the checks are captured.

    Names, all in the collection ``checks``: ``<optimizer>/steps_without_zero_grad``,
    ``<model>/train_steps_in_eval_mode``, ``<model>/eval_calls_in_train_mode`` (counts in a row) and
    ``<parameter>/outside_optimizers`` (1 or 0).
    """

    def __init__(self, names: ParameterNames, registry: ModuleRegistry, probes: StepCallbacks) -> None:
        self._names, self._registry, self._probes = names, registry, probes
        self.is_wanted = probes.has_checks()
        """Whether anybody asks for them at any step; else nothing is looked at."""
        self._left = StaleGradients()
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()

    def at_backward(self) -> None:
        """A backward pass begins."""
        begun_ns = time.perf_counter_ns()
        self._left.at_backward()
        self._probes.spent(time.perf_counter_ns() - begun_ns, begun_ns)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients; after the probe of the same name."""
        begun_ns = time.perf_counter_ns()
        self._left.before_update(optimizer)
        model = self._models.get(optimizer)
        if model is None:
            with torch._C.DisableTorchFunction():
                model = self._models[optimizer] = _Model(optimizer, self._label(optimizer), self._names, self._registry)
        model.modes.at_step()
        if self._probes.wants_checks():
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._probes.checks(self._found(optimizer, model))
        self._probes.spent(time.perf_counter_ns() - begun_ns, begun_ns)

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """It has stepped."""
        begun_ns = time.perf_counter_ns()
        self._left.after_update(optimizer)
        self._probes.spent(time.perf_counter_ns() - begun_ns, begun_ns)

    def call_without_gradients(self, called: torch.nn.Module) -> None:
        """An outermost module is called without gradients."""
        for model in list(self._models.values()):
            if any(each() is called for each in model.roots):
                model.modes.at_call_without_gradients()

    def _label(self, optimizer: torch.optim.Optimizer) -> str:
        """The optimizer's class, with a number where another one alive is called so."""
        own, taken = type(optimizer).__name__, {each.label for each in self._models.values()}
        return next(each for each in (own, *(f"{own}_{at}" for at in range(1, len(taken) + 2))) if each not in taken)

    def _found(self, optimizer: torch.optim.Optimizer, model: _Model) -> dict[str, float]:
        found: dict[str, float] = {}
        in_a_row = self._left.in_a_row(optimizer)
        if in_a_row is not None:
            found[f"{model.label}/steps_without_zero_grad"] = float(in_a_row)
        if model.modes:
            found[f"{model.name}/train_steps_in_eval_mode"] = float(model.modes.steps_in_eval_mode)
            if model.modes.calls_in_train_mode is not None:
                found[f"{model.name}/eval_calls_in_train_mode"] = float(model.modes.calls_in_train_mode)
        for name, is_outside in model.outsiders.find(list(self._models)).items():
            found[f"{name}/outside_optimizers"] = float(is_outside)
        return found
