"""One optimizer with what it updates: the names of its tensors, its settings, and the programs that read them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from leadline.frameworks.torch.capture.device_copy import LateNumber, number_of, scale_of
from leadline.frameworks.torch.capture.program import Before, ProgramSpecs, TorchProgram
from leadline.frameworks.torch.capture.tensor_specs import (
    ON_UPDATE,
    State,
    TensorSpec,
    bare_gradients,
    of_variables,
    specs_of,
    variables_of,
    wants_norm,
)
from leadline.frameworks.torch.hooks.clipping import Clipping
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.naming.parameter_names import ParameterNames, parameters_of
from leadline.records.plan import CaptureItem

Number = LateNumber | float


class Labels:
    """What optimizers are called: their class, and a number where another one alive is called so.

    An optimizer whose tensors have the names of an earlier one's takes its place: a model was built anew.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, tuple[str, frozenset[str], str]] = weakref.WeakKeyDictionary()

    def of(self, optimizer: torch.optim.Optimizer, names: frozenset[str]) -> tuple[str, str]:
        """The label of an optimizer, and what stands before the names of its norms: nothing for the first.

        Args:
            names: Of the parameters that it updates.
        """
        others = [
            (label, prefix)
            for each, (label, theirs, prefix) in list(self._known.items())
            if each is not optimizer and theirs.isdisjoint(names)
        ]
        own = type(optimizer).__name__
        taken = {label for label, _ in others}
        label = next(each for each in (own, *(f"{own}_{at}" for at in range(1, len(others) + 2))) if each not in taken)
        prefix = f"{label}/" if any(not prefix for _, prefix in others) else ""
        self._known[optimizer] = (label, names, prefix)
        return label, prefix


class TorchSubject:
    """See ``leadline.frameworks.adapter.Subject``."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: ParameterNames,
        labels: Labels,
        clipping: Clipping,
        scaler_of: Callable[[object], Any],
        tell: Callable[[str], None],
    ) -> None:
        """
        Args:
            scaler_of: Gives the gradient scaler that steps an optimizer, if there is one.
            tell: Takes a line about something that cannot be captured.
        """
        self.model, self._named = names.name(optimizer)
        self.optimizer = type(optimizer).__name__
        own = {id(parameter) for parameter in parameters_of(optimizer)}
        self.parameters = len(own)
        named = frozenset(each.name for each in self._named if id(each.parameter) in own)
        self._label, self._prefix = labels.of(optimizer, named)
        self._ids = own
        self._clipping, self._scaler_of, self._tell = clipping, scaler_of, tell
        self._optimizer = weakref.ref(optimizer)
        self._befores: dict[tuple[str, ...], Before] = {}
        self._changes: Deltas | None = None

    def is_current(self) -> bool:
        optimizer = self._optimizer()
        return optimizer is not None and {id(parameter) for parameter in parameters_of(optimizer)} == self._ids

    def hyperparameters(self) -> dict[str, Number]:
        optimizer = self._optimizer()
        if optimizer is None:
            return {}
        found = dict(_settings(self._label, optimizer))
        scaler = self._scaler_of(optimizer)
        if scaler is not None:
            found["GradScaler/scale"] = scale_of(scaler)
        return found

    def clipped(self) -> dict[str, Number]:
        """What clipping these gradients found, since this was last asked."""
        return {f"{self._prefix}{name}": value for name, value in self._clipping.take(self._ids, id(self))}

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> TorchProgram | None:
        fixed = [wish for named in self._named for wish in specs_of(named, items)]
        for_variables = of_variables(items)
        norm = f"{self._prefix}gradient_norm"
        is_norm_wanted = wants_norm(norm, items)
        if not fixed and not for_variables and not is_norm_wanted:
            return None
        before = self._before(fixed, device_bytes)
        if is_norm_wanted:
            own = [each for each in self._named if id(each.parameter) in self._ids]
            fixed += bare_gradients(own, fixed)

        def variables() -> list[TensorSpec]:
            return variables_of(self._label, self._named, self._state(), for_variables) if for_variables else []

        wishes = ProgramSpecs(fixed, variables, norm if is_norm_wanted else None, self._state, self._scale)
        if self._changes is None:
            self._changes = Deltas(device_bytes - sum(each.bytes for each in self._befores.values()), self._tell)
        return TorchProgram(wishes, before, self._changes, self._tell, device_bytes=device_bytes)

    def _state(self) -> State:
        optimizer = self._optimizer()
        return optimizer.state if optimizer is not None else {}

    def _scale(self) -> torch.Tensor | None:
        """What a gradient scaler leaves to a fused optimizer to divide by; None outside of such a step."""
        return getattr(self._optimizer(), "grad_scale", None)

    def _before(self, wishes: Sequence[TensorSpec], device_bytes: int) -> Before | None:
        """The memory of weights before an update; programs for the same weights share it."""
        updates = [wish for wish in wishes if ON_UPDATE in wish.statistics]
        if not updates:
            return None
        key = tuple(wish.info.name for wish in updates)
        if key not in self._befores:
            room = device_bytes - sum(each.bytes for each in self._befores.values())
            self._befores[key] = Before(updates, room)
            if self._befores[key].is_sampled:
                self._tell(
                    f"update ratios of {len(updates)} tensors are estimated from samples: copies of them would take "
                    f"more of the device than device_bytes leaves ({room:,} bytes)"
                )
        return self._befores[key]


def _settings(label: str, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Number]]:
    """Each number of an optimizer's groups: ``AdamW/lr``, ``AdamW/betas_0``; of further groups ``AdamW/group1/lr``."""
    for index, group in enumerate(optimizer.param_groups):
        prefix = f"{label}/" + (f"group{index}/" if index else "")
        for name, value in group.items():
            parts = (
                {f"{name}_{at}": each for at, each in enumerate(value)} if isinstance(value, tuple) else {name: value}
            )
            for key, each in parts.items() if name != "params" else ():
                if isinstance(each, torch.Tensor):
                    each = number_of(each) if each.numel() == 1 and not each.is_meta else None
                if isinstance(each, (int, float, LateNumber)):
                    yield prefix + key, each if isinstance(each, LateNumber) else float(each)
