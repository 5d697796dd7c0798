"""What a training loses of what it has: the state of its optimizer, and parameters that are initialized again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.continuation import LatestOptimizer
from leadline.frameworks.torch.capture.step_count import keeps_state
from leadline.frameworks.torch.diagnose.unfit_states import UnfitStates
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.naming.model_names import ParameterNames, parameters_of
from leadline.records.names import INITIALIZED_AGAIN, MADE_ANEW, STATE_NOT_LOADED

_OF_OPTIMIZER: Final = frozenset({"state", "param_groups"})
_OF_SCHEDULE: Final = frozenset({"last_epoch", "_step_count"})
_MAX_DEPTH: Final = 3
_MAX_ENTRIES: Final = 256
"""Entries of a mapping that are looked at, unless they are tensors."""
_MAX_CHECKPOINTS: Final = 4
_COMPARED: Final = 3
"""Tensors of a loaded state that are searched in the checkpoints."""
_MAX_NAMES: Final = 20


class _Parameter:
    """A parameter that an optimizer has begun to update."""

    __slots__ = ("_left", "reference", "times")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.reference = weakref.ref(parameter)
        self.times = 0
        """How often it was initialized since then; several initializers between two updates count once."""
        self._left: int | None = None
        """Its version after it was last initialized."""

    def version(self) -> int | None:
        parameter = self.reference()
        return parameter._version if parameter is not None and not parameter.is_inference() else None

    def note_initialized(self, before: int | None) -> None:
        """Note that it was initialized.

        Args:
            before: The version that it had.
        """
        if before is not None and before != self._left:
            self.times += 1
        self._left = self.version()


class _Checkpoint:
    """A file that was loaded, with tensors of a model and the state of an optimizer."""

    __slots__ = ("models", "parameters", "scheduled_steps", "tensors")

    def __init__(
        self, tensors: Mapping[int, weakref.ref[torch.Tensor]], parameters: frozenset[int], scheduled_steps: int
    ) -> None:
        self.tensors = tensors
        """The tensors outside of optimizers, by id."""
        self.parameters = parameters
        """The numbers of parameters of the optimizers in it."""
        self.scheduled_steps = scheduled_steps
        """The most steps of a schedule in it; 0: it has none."""
        self.models: list[weakref.ref[torch.nn.Module]] = []
        """The modules whose state was loaded from it."""

    def has(self, tensor: torch.Tensor) -> bool:
        reference = self.tensors.get(id(tensor))
        return reference is not None and reference() is tensor


class StartingOver:
    """Notices optimizers that begin without the state that there was for them, and parameters initialized again.

    Initializers, ``torch.load`` and ``Module.load_state_dict`` are replaced; each looks up an id, and does nothing
    more in a training that neither initializes what it has updated nor loads the state of an optimizer. So is the
    constructor of optimizers: one that was made after the last step of another may begin a training of its own.

    Attributes:
        latest: Knows whether an optimizer goes on with the training of another one.
        unfit: Notes what models are loaded from.
    """

    def __init__(self, latest: LatestOptimizer, unfit: UnfitStates, guard: HookGuard) -> None:
        self.latest, self.unfit, self._guard = latest, unfit, guard
        self._updated: dict[int, _Parameter] = {}
        """The parameters that the optimizers have begun to update, by id."""
        self._is_initialized_again = False
        """Whether one of them was initialized since."""
        self._checkpoints: list[_Checkpoint] = []
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._not_loaded: weakref.WeakSet[Any] = weakref.WeakSet()
        """The optimizers whose state was in a checkpoint that their model was loaded from."""
        self._patches = Patches()

    def install(self) -> None:
        """Replace initializers, what loads checkpoints, and the constructor of optimizers."""
        for name, function in list(vars(torch.nn.init).items()):
            if name.endswith("_") and not name.startswith("_") and callable(function):
                self._patches.replace(torch.nn.init, name, self._make_initializer)
        for owner in (torch.serialization, torch):
            self._patches.replace(owner, "load", self._make_load)
        self._patches.replace(torch.nn.Module, "load_state_dict", self._make_load_state)
        self._patches.replace(torch.optim.Optimizer, "__init__", self._make_constructor)

    def uninstall(self) -> None:
        """Restore them."""
        self._patches.restore()

    def before_update(self, optimizer: torch.optim.Optimizer) -> dict[str, float]:
        """Notice an optimizer before its first step; return the checks of states that do not fit what it trains."""
        if optimizer in self._seen:
            return {}
        self._seen.add(optimizer)
        parameters = parameters_of(optimizer)
        self._updated = {key: known for key, known in self._updated.items() if known.reference() is not None}
        self._updated |= {id(parameter): _Parameter(parameter) for parameter in parameters}
        if not optimizer.state and keeps_state(optimizer) and self._had_state(parameters):
            self._not_loaded.add(optimizer)
        return self.unfit.of(parameters)

    def results(self, optimizer: torch.optim.Optimizer, label: str, names: ParameterNames) -> dict[str, float]:
        """Return the checks of an optimizer that has begun to step.

        Args:
            label: The optimizer's.
        """
        found = {f"{label}/{STATE_NOT_LOADED}": float(optimizer in self._not_loaded)}
        if self.latest.may_be_followed(optimizer):
            found[f"{label}/{MADE_ANEW}"] = float(self.latest.made_anew)
        updated = parameters_of(optimizer) if self._is_initialized_again else []
        again = [known for key in map(id, updated) if (known := self._updated.get(key)) and known.times]
        if again:
            times = {id(known.reference()): known.times for known in again}
            named = [item for item in names.name(optimizer)[1] if id(item.parameter) in times][:_MAX_NAMES]
            found |= {f"{item.name}/{INITIALIZED_AGAIN}": float(times[id(item.parameter)]) for item in named}
        return found

    def _had_state(self, parameters: list[torch.Tensor]) -> bool:
        """Return whether a model with these parameters was loaded from a file with the state of such an optimizer."""
        ids = {id(parameter) for parameter in parameters}
        for checkpoint in self._checkpoints:
            models = [model for reference in checkpoint.models if (model := reference()) is not None]
            is_of_model = any(id(parameter) in ids for model in models for parameter in model.parameters())
            if is_of_model and len(parameters) in checkpoint.parameters:
                return True
        return False

    def scheduled_steps(self, optimizer: torch.optim.Optimizer) -> int:
        """Return the steps of a schedule in the latest file with the state of such an optimizer; 0: it has none."""
        count = len(parameters_of(optimizer))
        fitting = [checkpoint for checkpoint in self._checkpoints if count in checkpoint.parameters]
        return fitting[-1].scheduled_steps if fitting else 0

    # The functions below run inside the user's training.

    def _make_initializer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard = self._guard

        def initialize(*args: Any, **kwargs: Any) -> Any:
            known = self._updated.get(id(args[0] if args else kwargs.get("tensor")))
            if known is None:
                return original(*args, **kwargs)
            before = guard.run(known.version)
            result = original(*args, **kwargs)
            guard.run(known.note_initialized, before)
            self._is_initialized_again = self._is_initialized_again or known.times > 0
            return result

        return hide_from_dynamo(initialize)

    def _make_constructor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note_made = self._guard, self.latest.note_made

        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            guard.run(note_made, optimizer)

        return hide_from_dynamo(__init__)

    def _make_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note_loaded = self._guard, self._note_loaded

        def load(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            guard.run(note_loaded, result)
            return result

        return hide_from_dynamo(load)

    def _make_load_state(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note_model = self._guard, self._note_model
        note_fact, note_fit = self.unfit.fact.call, self.unfit.note

        def load_state_dict(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            state = args[0] if args else kwargs.get("state_dict")
            guard.run(note_fact, note_fit, module, state, result)
            if self._checkpoints:
                guard.run(note_model, module, state)
            return result

        return hide_from_dynamo(load_state_dict)

    def _note_loaded(self, loaded: object) -> None:
        if not isinstance(loaded, Mapping):
            return
        tensors: dict[int, weakref.ref[torch.Tensor]] = {}
        counts = frozenset(_walk(loaded, tensors, _MAX_DEPTH))
        if counts and tensors:
            steps = max(_scheduled_steps(loaded, _MAX_DEPTH), default=0)
            self._checkpoints = [*self._checkpoints, _Checkpoint(tensors, counts, steps)][-_MAX_CHECKPOINTS:]

    def _note_model(self, module: torch.nn.Module, state: object) -> None:
        if not isinstance(state, Mapping):
            return
        tensors = [value for value in list(state.values())[:_COMPARED] if isinstance(value, torch.Tensor)]
        for checkpoint in self._checkpoints:
            if any(map(checkpoint.has, tensors)):
                checkpoint.models.append(weakref.ref(module))


def _walk(loaded: object, tensors: dict[int, weakref.ref[torch.Tensor]], depth: int) -> Iterator[int]:
    """Collect the tensors outside of optimizers' states, and yield the numbers of parameters of these optimizers."""
    if isinstance(loaded, Mapping) and loaded.keys() >= _OF_OPTIMIZER:
        groups = loaded["param_groups"]
        if loaded["state"] and isinstance(groups, list):
            yield sum(len(group["params"]) for group in groups)
        return
    values: list[object] = []
    if isinstance(loaded, Mapping):
        values = list(loaded.values())
    elif isinstance(loaded, (list, tuple)):
        values = list(loaded)
    entries = [value for value in values if isinstance(value, (Mapping, list, tuple))]
    tensors |= {id(value): weakref.ref(value) for value in values if isinstance(value, torch.Tensor)}
    for entry in entries[:_MAX_ENTRIES] if depth else ():
        yield from _walk(entry, tensors, depth - 1)


def _scheduled_steps(loaded: object, depth: int) -> Iterator[int]:
    """Yield the steps of the schedules whose state is in something that was loaded."""
    if isinstance(loaded, Mapping) and loaded.keys() >= _OF_SCHEDULE:
        steps = loaded["last_epoch"]
        if isinstance(steps, int):
            yield steps
        return
    values = list(loaded.values()) if isinstance(loaded, Mapping) else loaded
    if isinstance(values, (list, tuple)) and depth:
        for value in [value for value in values if isinstance(value, (Mapping, list, tuple))][:_MAX_ENTRIES]:
            yield from _scheduled_steps(value, depth - 1)
