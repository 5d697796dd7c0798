"""What is left of the state that was loaded into an optimizer, when it begins to step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.step_count import counted_steps
from leadline.frameworks.torch.diagnose.schedules import Schedules
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.records.names import FIRST_STATE, LOADED_STATE, MOMENT_NORM, SCHEDULE_NOT_LOADED, STARTED_OVER

_MAX_ELEMENTS: Final = 1 << 18
"""The elements of moments whose norm is taken."""
_MAX_PARAMETERS: Final = 16
"""The parameters of whose moments it is taken, the first ones: each costs some microseconds."""
_OVER: Final = 0.05
"""The share of its initial learning rate from which on downwards a schedule may be over, and another one follows."""


@dataclass(frozen=True, slots=True)
class _State:
    """What an optimizer has before a step: a part is missing where it is not known."""

    parts: Mapping[str, float]
    """``lr``, ``steps``, ``norm``."""
    initial_rates: tuple[object, ...]
    """What the schedules of the groups start with; None: nothing."""


class LoadedStates:
    """Compares the state that was loaded into an optimizer with the one that its first step finds.

    Loading is replaced, and waits for one number of the device, as the first step after it does.
    """

    def __init__(self, schedules: Schedules, steps_in_file: Callable[[Any], int], guard: HookGuard) -> None:
        """
        Args:
            steps_in_file: Returns the steps of a schedule in the file with the state of such an optimizer; 0: none.
        """
        self._schedules, self._steps_in_file, self._guard = schedules, steps_in_file, guard
        self._loaded: weakref.WeakKeyDictionary[Any, _State] = weakref.WeakKeyDictionary()
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        self._found: weakref.WeakKeyDictionary[Any, dict[str, float]] = weakref.WeakKeyDictionary()
        self._patches = Patches()

    def install(self) -> None:
        """Replace what loads the state of an optimizer."""
        self._patches.replace(torch.optim.Optimizer, "load_state_dict", self._make_load_state)

    def uninstall(self) -> None:
        """Restore it."""
        self._patches.restore()

    def before_update(self, optimizer: Any) -> None:
        """Compare the states before the first step of an optimizer."""
        if optimizer in self._begun:
            return
        self._begun.add(optimizer)
        loaded = self._loaded.pop(optimizer, None)
        if loaded is not None:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._found[optimizer] = self._compared(optimizer, loaded, _state_of(optimizer))

    def results(self, optimizer: Any, label: str) -> dict[str, float]:
        """Return the checks of an optimizer whose state was loaded before its first step; empty: it was not.

        Args:
            label: The optimizer's.
        """
        return {f"{label}/{name}": value for name, value in self._found.get(optimizer, {}).items()}

    def _compared(self, optimizer: Any, loaded: _State, first: _State) -> dict[str, float]:
        found = {f"{LOADED_STATE}/{part}": value for part, value in loaded.parts.items()}
        found |= {f"{FIRST_STATE}/{part}": value for part, value in first.parts.items()}
        counts = self._schedules.counts(optimizer)
        initial = [rate for rate in loaded.initial_rates if isinstance(rate, (int, float))]
        is_new = bool(counts) and not any(counts) and loaded.initial_rates == first.initial_rates and bool(initial)
        is_over = is_new and loaded.parts.get("lr", 0.0) < _OVER * max(initial)
        has_started_over = is_new and not is_over
        steps = self._steps_in_file(optimizer) if has_started_over and loaded.parts.get("steps") else 0
        found |= {SCHEDULE_NOT_LOADED: float(steps)} if steps else {}
        return found | {STARTED_OVER: float(has_started_over)}

    def _make_load_state(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note

        def load_state_dict(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(optimizer, *args, **kwargs)
            guard.run(note, optimizer)
            return result

        return hide_from_dynamo(load_state_dict)

    def _note(self, optimizer: Any) -> None:
        if optimizer.state and optimizer not in self._begun:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._loaded[optimizer] = _state_of(optimizer)


def moment_norms(optimizer: Any) -> dict[str, torch.Tensor]:
    """Return the norm of the moments that an optimizer divides by, or else adds, by their name; empty: it has none.

    Taken of the first parameters and elements, on their device.
    """
    name, parts, left = "", list[torch.Tensor](), _MAX_ELEMENTS
    for found, moments in _moments(optimizer):
        name = name or found
        is_alike = not parts or (parts[0].device, parts[0].dtype) == (moments.device, moments.dtype)
        if found == name and is_alike and moments.is_contiguous():
            parts.append(moments.view(-1)[:left])
            left -= len(parts[-1])
        if not left or len(parts) == _MAX_PARAMETERS:
            break
    return {name: torch.linalg.vector_norm(torch.stack(torch._foreach_norm(parts)).float())} if parts else {}


def moment_checks(optimizer: Any, label: str) -> dict[str, object]:
    """Return the checks of the norms of an optimizer's moments.

    Args:
        label: The optimizer's.
    """
    return {f"{label}/{name}/{MOMENT_NORM}": norm for name, norm in moment_norms(optimizer).items()}


def _moments(optimizer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the last moment of each parameter, with its name: that of the squares, if there is one."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter)
            named = state.items() if isinstance(state, Mapping) else ()
            fitting = [(name, value) for name, value in named if _is_moment(value, parameter)]
            if fitting:
                yield str(fitting[-1][0]), fitting[-1][1]


def _is_moment(value: Any, parameter: torch.Tensor) -> bool:
    """Return whether a part of the state has an element for each of a parameter; a sharded tensor is not read."""
    return (
        type(value) is torch.Tensor
        and value.shape == parameter.shape
        and value.numel() > 0
        and value.is_floating_point()
        and value.layout is torch.strided
        and not value.is_meta
    )


def _state_of(optimizer: Any) -> _State:
    rates = [rate for group in optimizer.param_groups if isinstance(rate := group.get("lr"), (int, float))]
    steps = counted_steps(optimizer)
    parts = {"lr": float(max(rates))} if rates else {}
    parts |= {"steps": float(steps)} if steps is not None else {}
    norms = [float(norm) for norm in moment_norms(optimizer).values()] if optimizer.state else [0.0]
    parts |= {"norm": norms[0]} if norms else {}
    return _State(parts, tuple(group.get("initial_lr") for group in optimizer.param_groups))
