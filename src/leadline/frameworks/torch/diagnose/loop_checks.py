"""Checks of the training loop: stale gradients, modules in the wrong mode, parameters without an optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.process_memory import process_memory
from leadline.frameworks.torch.capture.step_count import remaining_steps
from leadline.frameworks.torch.diagnose.adapters import adapter_checks
from leadline.frameworks.torch.diagnose.frozen_batch_norms import FrozenBatchNorms
from leadline.frameworks.torch.diagnose.frozen_groups import FrozenGroups
from leadline.frameworks.torch.diagnose.loaded_states import LoadedStates, moment_checks
from leadline.frameworks.torch.diagnose.process_checks import (
    count_replicas,
    device_memory,
    is_wrapper_never_called,
)
from leadline.frameworks.torch.diagnose.recompilations import NOT_COMPILED, Recompilations
from leadline.frameworks.torch.diagnose.repeated_modules import repeated_modules
from leadline.frameworks.torch.diagnose.running_averages import RunningAverages
from leadline.frameworks.torch.diagnose.schedules import Schedules
from leadline.frameworks.torch.diagnose.stale_gradients import StaleGradients
from leadline.frameworks.torch.diagnose.starting_over import StartingOver
from leadline.frameworks.torch.diagnose.stuck_copies import StuckCopies
from leadline.frameworks.torch.diagnose.unmanaged_parameters import (
    CalledModules,
    UnmanagedParameters,
    unregistered_tensors,
)
from leadline.frameworks.torch.diagnose.unmoved_averages import UnmovedAverages
from leadline.frameworks.torch.diagnose.watched_metrics import watched_metrics
from leadline.frameworks.torch.naming.model_names import (
    ModuleRegistry,
    ParameterNames,
    clean_named_parameters,
    find_roots,
    parameters_of,
    unwrap,
)
from leadline.records.names import ALL_RECOMPILATIONS, NEVER_CALLED_WRAPPER, REMAINING_STEPS


class CheckSource(Protocol):
    """What counts something of the training by itself, beside the optimizers."""

    def results(self) -> dict[str, float]:
        """Return the checks."""
        ...


class _OptimizerChecks:
    """Checks of one optimizer and the models that it updates."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, label: str, names: ParameterNames, registry: ModuleRegistry
    ) -> None:
        self.label = label
        roots = find_roots(parameters_of(optimizer), registry.outermost())
        self.name = " + ".join(type(unwrap(root)).__name__ for root in roots) or "model"
        self.modes = ModuleModes(roots)
        prefixes = {root: names.prefix(root) for root in roots}
        self.averages, self.repeated = RunningAverages(prefixes), repeated_modules(prefixes)
        named = {
            names.prefix(root) + name: parameter for root in roots for name, parameter in clean_named_parameters(root)
        }
        for root in roots:
            named |= {names.prefix(root) + name: tensor for name, tensor in unregistered_tensors(root)}
        managed = {id(parameter) for parameter in parameters_of(optimizer)}
        self.unmanaged = UnmanagedParameters()
        self.unmanaged.add({name: parameter for name, parameter in named.items() if id(parameter) not in managed})
        self.frozen = FrozenGroups()
        self.roots = [weakref.ref(root) for root in roots]
        self.is_tracked = False
        """Whether the current or next step of the optimizer is inspected."""
        self.replicas = count_replicas(roots, parameters_of(optimizer))
        self.captures = 0


_NO_MODES: Final = -1.0
_MOMENTS_EVERY: Final = 5


class LoopChecks:
    """Inspects the steps at which checks are captured, and reports the results.

    The step after such a step is inspected as well, and as long as something is found each further step, so that steps
    in a row are counted; all other steps cost nothing.

    Names, all in the collection ``checks``: ``<optimizer>/steps_without_zero_grad``,
    ``<model>/train_steps_in_eval_mode``, ``<model>/eval_calls_in_train_mode`` (counts in a row; the first is -1 for a
    model without dropout and batch normalization; the second counts losses without gradients),
    ``<model>/other_calls_with_dropout`` (the most between two updates, without gradients and without a loss),
    ``<model>/frozen_batch_norms`` (those in training mode), what ``RunningAverages`` and ``repeated_modules`` find,
    ``<parameter>/outside_optimizers`` and ``<parameter>/frozen_by_optimizer`` (1 or 0), ``<model>/replicas``
    (see ``count_replicas``), what ``StartingOver``, ``LoadedStates``, ``Schedules``, ``Recompilations`` and the
    sources find, at every fifth of the captured steps the norms of moments, and the memory of the process.
    """

    def __init__(
        self,
        names: ParameterNames,
        registry: ModuleRegistry,
        callbacks: StepCallbacks,
        lost: StartingOver,
        schedules: Schedules,
        loaded: LoadedStates,
        sources: Iterable[CheckSource],
    ) -> None:
        self.lost, self._schedules, self._loaded, self._sources = lost, schedules, loaded, tuple(sources)
        self._names, self._registry, self._callbacks = names, registry, callbacks
        self._watched = callbacks.facts.of("what callbacks watch is")
        self.is_enabled = callbacks.captures_checks()
        """Whether checks are captured at any step; otherwise nothing is inspected."""
        self.is_tracking = False
        """Whether the current or next step of an optimizer is inspected."""
        self.called = CalledModules()
        """Modules of captured forward passes that belong to no trained model."""
        self._stale_gradients, self._batch_norms = StaleGradients(), FrozenBatchNorms()
        self._recompilations, self._unmoved, self._stuck = Recompilations(), UnmovedAverages(), StuckCopies()
        self._models: weakref.WeakKeyDictionary[Any, _OptimizerChecks] = weakref.WeakKeyDictionary()
        self._once_held: dict[int, weakref.ref[torch.Tensor]] = {}
        """By id, the parameters of all optimizers that were inspected, also of those that are gone."""

    def before_backward(self) -> None:
        """Handle the start of a backward pass."""
        self._stale_gradients.before_backward()

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Handle the start of an optimizer step; called after the callback of the same name."""
        unfit = self.lost.before_update(optimizer)
        if unfit and self.is_enabled:
            self._callbacks.record_checks(unfit)  # this training may end before the next checks
        self._loaded.before_update(optimizer)
        is_captured = self._callbacks.wants_checks()
        if not is_captured and not self.is_tracking:
            return
        model = self._models.get(optimizer)
        if model is None:
            with torch._C.DisableTorchFunction():
                model = self._models[optimizer] = _OptimizerChecks(
                    optimizer, self._label(optimizer), self._names, self._registry
                )
            self._once_held = {key: held for key, held in self._once_held.items() if held() is not None}
            self._once_held |= {id(parameter): weakref.ref(parameter) for parameter in parameters_of(optimizer)}
        steps = self._stale_gradients.before_update(optimizer) if model.is_tracked else 0
        if is_captured or model.is_tracked:
            model.modes.before_step()
        if is_captured:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._callbacks.record_checks(self._results(optimizer, model))
        model.is_tracked = is_captured or steps > 0 or model.modes.steps_in_eval_mode > 0
        self.is_tracking = any(other.is_tracked for other in self._models.values())

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Handle the end of an optimizer step."""
        model = self._models.get(optimizer)
        if model is not None:
            self._stale_gradients.after_update(optimizer, is_inspected_next=model.is_tracked)

    def call_without_gradients(self, called: torch.nn.Module) -> None:
        """Handle a call of an outermost module without gradients."""
        is_trained = False
        for model in list(self._models.values()):
            if any(reference() is called for reference in model.roots):
                model.modes.on_call_without_gradients(called)
                is_trained = True
        if not is_trained and self._models:
            self._unmoved.note(called)
            self._stuck.note(called)

    def loss_without_gradients(self) -> None:
        """Handle a loss that was computed, as one number, without gradients."""
        for model in list(self._models.values()):
            model.modes.on_loss_without_gradients()

    def _label(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the optimizer's class, with a number if another live optimizer has the same label."""
        kind, taken = type(optimizer).__name__, {model.label for model in self._models.values()}
        candidates = (kind, *(f"{kind}_{number}" for number in range(1, len(taken) + 2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def _first_results(self, optimizer: torch.optim.Optimizer, model: _OptimizerChecks) -> dict[str, float]:
        """Return what is looked at once: the plan of the trainer, its callbacks, and adapters that cannot learn."""
        remaining = remaining_steps()
        results = dict(self._watched.call(watched_metrics) or {})
        if remaining is not None:
            results[REMAINING_STEPS] = float(remaining)
        roots = [root for reference in model.roots if (root := reference()) is not None]
        if not parameters_of(optimizer):  # a trainer gives it what requires a gradient: nothing
            roots = [root for root in self._registry.outermost() if not any(p.requires_grad for p in root.parameters())]
        found = adapter_checks(optimizer, roots, self._models)
        name = " + ".join(type(unwrap(root)).__name__ for root in roots) or model.name
        return results | {f"{name}/{check}": number for check, number in found.items()}

    def _results(self, optimizer: torch.optim.Optimizer, model: _OptimizerChecks) -> dict[str, object]:
        results: dict[str, object] = {**process_memory(), **device_memory()}
        results |= model.frozen.find(optimizer, self._names)
        results |= self.lost.results(optimizer, model.label, self._names)
        results |= self._loaded.results(optimizer, model.label)
        if model.captures % _MOMENTS_EVERY == 0:
            results |= moment_checks(optimizer, model.label)
        if not model.captures:
            results |= self._first_results(optimizer, model)
        model.captures += 1
        results |= self._schedules.results(optimizer, model.label) | self._recompilations.results()
        for source in self._sources:
            results |= source.results()
        if model.replicas is not None:
            results[f"{model.name}/replicas"] = float(model.replicas)
            roots = (root for reference in model.roots if (root := reference()) is not None)
            if results[ALL_RECOMPILATIONS] == NOT_COMPILED and is_wrapper_never_called(roots):
                results[f"{model.name}/{NEVER_CALLED_WRAPPER}"] = 1.0
        frozen = self._batch_norms.count(root for reference in model.roots if (root := reference()) is not None)
        if frozen is not None:
            results[f"{model.name}/frozen_batch_norms"] = float(frozen)
        results |= model.averages.results(model.label) | model.repeated
        consecutive_steps = self._stale_gradients.consecutive_steps(optimizer)
        if consecutive_steps is not None:
            results[f"{model.label}/steps_without_zero_grad"] = float(consecutive_steps)
        if model.modes:
            results[f"{model.name}/train_steps_in_eval_mode"] = float(model.modes.steps_in_eval_mode)
            calls = model.modes.take_calls()
            if calls is not None:
                results[f"{model.name}/eval_calls_in_train_mode"] = float(calls.evaluated)
                results[f"{model.name}/other_calls_with_dropout"] = float(calls.others)
        else:
            results[f"{model.name}/train_steps_in_eval_mode"] = _NO_MODES
        roots = (reference() for other in self._models.values() for reference in other.roots)
        trained = [root for root in roots if root is not None]
        self.called.parameters.discard_those_of(trained)
        results |= self._unmoved.results(trained) | self._stuck.results(trained) | self.lost.unfit.results(trained)
        for unmanaged in (model.unmanaged, self.called.parameters):
            for name, is_outside in unmanaged.find(list(self._models), self._once_held).items():
                results[f"{name}/outside_optimizers"] = float(is_outside)
        return results


# --- modes of a model's dropout and batch normalization modules during training ------------------------------


_CALLS_OF_A_LOSS: Final = 3
"""Calls of a model from which one loss is computed: a pair, or a triplet. Several more are a mean over dropout."""
_REGULAR: Final = 3
"""Losses of one call each, and no other call, after which further calls are taken for such: losses of the first calls
of a step are seen, not those of all."""


_NO_VERSION: Final = -1
"""Differs from that of every parameter."""


@dataclass(slots=True)
class CallsInTrainMode:
    """Calls of a model without gradients between two updates, with dropout or batch normalization in training mode."""

    evaluated: int = 0
    """The losses that were computed of them: an evaluation does that."""
    others: int = 0
    """Those of which no loss was computed, with dropout in training mode: samples, rollouts, predictions, targets."""


class ModuleModes:
    """Counts a model's consecutive steps in eval mode, and its consecutive calls without gradients in training mode.

    A call counts as an evaluation once a loss is computed after it, and before the model is called several times more.

    The mode of the model itself tells a mistake from a choice: batch normalization that is frozen, and dropout that
    stays active for an estimate of uncertainty, have another mode than the model. A step costs a search for the first
    module in training mode; in a healthy training that is the first one.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        roots = list(roots)
        self._roots = [weakref.ref(root) for root in roots]
        self._modules = [weakref.ref(module) for root in roots for module in root.modules() if has_modes(module)]
        self._dropout = [module for module in self._modules if not isinstance(module(), _BatchNorm)]
        self._is_frozen_in_part = not all(parameter.requires_grad for root in roots for parameter in root.parameters())
        self._version = 0
        self._calls = CallsInTrainMode()
        self._pending: dict[int, int] = {}
        """How often each root was called since the last loss."""
        self.steps_in_eval_mode = 0
        self._most: CallsInTrainMode | None = None
        """The most calls between two updates since ``take_calls``; None: no call without gradients was observed."""

    def __bool__(self) -> bool:
        return bool(self._modules)

    def before_step(self) -> None:
        """Count a step of the model's optimizer."""
        is_in_eval_mode = not _is_any_training(self._roots) and not _is_any_training(self._modules)
        self.steps_in_eval_mode = self.steps_in_eval_mode + 1 if is_in_eval_mode and self._is_trained() else 0

    def on_call_without_gradients(self, called: torch.nn.Module) -> None:
        """Count a call of the model without gradients."""
        is_training = _is_any_training(self._roots) and _is_any_training(self._modules)
        version = self._trained_version() if is_training else _NO_VERSION
        if version != self._version or not is_training:
            self._version, self._calls = version, CallsInTrainMode()
            self._pending.clear()
        self._most = self._most or CallsInTrainMode()
        if not is_training:
            return
        if self._calls.evaluated >= _REGULAR and not self._calls.others:
            self._count_loss()
            return
        self._pending[id(called)] = self._pending.get(id(called), 0) + 1
        self._calls.others += _is_any_training(self._dropout)
        self._most.others = max(self._most.others, self._calls.others)

    def on_loss_without_gradients(self) -> None:
        """Count the calls since the last loss as an evaluation, if they are not many."""
        if 0 < max(self._pending.values(), default=0) <= _CALLS_OF_A_LOSS:
            self._calls.others = max(self._calls.others - sum(self._pending.values()), 0)
            self._count_loss()
        self._pending.clear()

    def _count_loss(self) -> None:
        self._calls.evaluated += 1
        if self._most is not None:
            self._most.evaluated = max(self._most.evaluated, self._calls.evaluated)

    def take_calls(self) -> CallsInTrainMode | None:
        """Return the most calls between two updates, and start over; None: none was observed so far."""
        calls = self._most
        self._most = CallsInTrainMode() if calls is not None else None
        return calls

    def _is_trained(self) -> bool:
        """Return whether the modules belong to what is trained, and not to a frozen part of the model."""
        alive = (reference() for reference in self._modules)
        return not self._is_frozen_in_part or any(
            parameter.requires_grad for module in alive if module is not None for parameter in module.parameters(False)
        )

    def _trained_version(self) -> int:
        """Return the version of a trained parameter, which every update advances."""
        roots = (reference() for reference in self._roots)
        parameters = (parameter for root in roots if root is not None for parameter in root.parameters())
        return next((parameter._version for parameter in parameters if parameter.requires_grad), 0)


def _is_any_training(modules: Iterable[weakref.ref[torch.nn.Module]]) -> bool:
    alive = (reference() for reference in modules)
    return any(module.training for module in alive if module is not None)


def has_modes(module: torch.nn.Module) -> bool:
    """Whether a module behaves differently in training and in evaluation."""
    if isinstance(module, _DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, _BatchNorm):
        return bool(module.track_running_stats)
    dropout: Any = getattr(module, "dropout", None)  # of recurrent and attention modules
    return isinstance(dropout, float) and dropout > 0
