"""Capture of one optimizer: its label, hyperparameters, and the programs that read its tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

import torch

from leadline.frameworks.kit.gradient_norms import NORM, norm_info, wants_norm
from leadline.frameworks.labels import Labels
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, is_recording, number_of, scale_of
from leadline.frameworks.torch.capture.program import ProgramSpecs, TorchProgram
from leadline.frameworks.torch.capture.requests import Requests
from leadline.frameworks.torch.capture.tensor_specs import (
    State,
    TensorSpec,
    specs_of,
    unrequested_gradients,
    variable_items,
    variables_of,
)
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.capture.weights_before import WeightsBefore
from leadline.frameworks.torch.hooks.clipping import Clipping
from leadline.frameworks.torch.kernels import fused_statistics
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.naming.model_names import ParameterNames, parameters_of
from leadline.records.plan import CaptureItem

Number = DeviceScalar | float


class TorchSubject:
    """See ``leadline.frameworks.adapter.Subject``."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: ParameterNames,
        labels: Labels,
        clipping: Clipping,
        scaler_of: Callable[[object], Any],
        warn: Callable[[str], None],
    ) -> None:
        """
        Args:
            scaler_of: Returns the gradient scaler that steps an optimizer, if there is one.
            warn: Called with a message about something that cannot be captured.
        """
        self.model, self._named = names.name(optimizer)
        self.optimizer = type(optimizer).__name__
        parameters = parameters_of(optimizer)
        self._ids = set(map(id, parameters))
        self._known = _identity(parameters)
        self.parameters = len(self._ids)
        sizes = {id(named.parameter): named.parameter for named in self._named}.values()
        self.elements = sum(parameter.numel() for parameter in sizes)
        self.trainable = sum(parameter.numel() for parameter in sizes if parameter.requires_grad)
        names_of_updated = frozenset(named.name for named in self._named if id(named.parameter) in self._ids)
        self._label, self._prefix = labels.of(optimizer, self.optimizer, names_of_updated)
        self._clipping, self._scaler_of, self._warn = clipping, scaler_of, warn
        self._optimizer = weakref.ref(optimizer)
        self._weights_before: dict[tuple[str, ...], WeightsBefore] = {}
        self._deltas: Deltas | None = None

    def is_current(self) -> bool:
        optimizer = self._optimizer()
        return optimizer is not None and _identity(parameters_of(optimizer)) == self._known

    def hyperparameters(self) -> dict[str, Number]:
        optimizer = self._optimizer()
        if optimizer is None:
            return {}
        settings = dict(_settings(self._label, optimizer, self._warn))
        scaler = self._scaler_of(optimizer)
        if scaler is not None:
            settings["GradScaler/scale"] = scale_of(scaler)
        return settings

    def clipped(self) -> dict[str, Number]:
        """Return the scalars of clipping these gradients since the last call."""
        if not self._clipping.clips:
            return {}
        return {f"{self._prefix}{name}": value for name, value in self._clipping.take(self._ids, id(self))}

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> TorchProgram | None:
        with untracked():  # also ahead of the script's function modes
            return self._program(items, device_bytes)

    def _program(self, items: Sequence[CaptureItem], device_bytes: int) -> TorchProgram | None:
        requests, for_variables = Requests(items), variable_items(items)
        fixed = [spec for named in self._named for spec in specs_of(named, requests)]
        norm = norm_info(self._prefix + NORM, items) if wants_norm(items, self._prefix) else None
        if not fixed and not for_variables and norm is None:
            return None
        if fixed:
            self._warn_of_slow_statistics(fixed[0].parameter.device)
        before = self._weights_copy(fixed, device_bytes)
        if norm is not None:
            updated = [named for named in self._named if id(named.parameter) in self._ids]
            fixed += unrequested_gradients(updated, fixed)
        of_variables = Requests(for_variables)

        def variables() -> list[TensorSpec]:
            return variables_of(self._label, self._named, self._state(), of_variables) if for_variables else []

        specs = ProgramSpecs(fixed, variables, norm, self._state, self._scale)
        if self._deltas is None:
            self._deltas = Deltas(
                device_bytes - sum(copies.bytes for copies in self._weights_before.values()), self._warn
            )
        return TorchProgram(specs, before, self._deltas, self._warn, device_bytes=device_bytes)

    def _warn_of_slow_statistics(self, device: torch.device) -> None:
        reason = fused_statistics.unavailable_reason(device) if not is_recording(device) else None
        if reason is not None:
            self._warn(
                f"statistics on {device} are computed by PyTorch's own kernels, which takes about five times as long: "
                f"the kernel of Leadline could not be compiled ({reason})"
            )

    def _state(self) -> State:
        optimizer = self._optimizer()
        return optimizer.state if optimizer is not None else {}

    def _scale(self) -> torch.Tensor | None:
        """Return the scale that a gradient scaler leaves to a fused optimizer; None outside such a step."""
        return getattr(self._optimizer(), "grad_scale", None)

    def _weights_copy(self, specs: Sequence[TensorSpec], device_bytes: int) -> WeightsBefore | None:
        """Return the copies of weights before an update, which programs for the same weights share."""
        updates = [spec for spec in specs if spec.has_update_ratio]
        if not updates:
            return None
        key = tuple(spec.info.name for spec in updates)
        if key not in self._weights_before:
            free_bytes = device_bytes - sum(copies.bytes for copies in self._weights_before.values())
            self._weights_before[key] = WeightsBefore(updates, free_bytes)
            if self._weights_before[key].is_sampled:
                self._warn(
                    f"update ratios of {len(updates)} tensors are estimated from samples: copies of them need more "
                    f"memory on the device than device_bytes allows ({free_bytes:,} bytes)"
                )
        return self._weights_before[key]


_requires_grad: Final = attrgetter("requires_grad")


def _identity(parameters: Sequence[torch.Tensor]) -> tuple[list[int], list[bool]]:
    """Return the ids of parameters, and which of them are not frozen."""
    return list(map(id, parameters)), list(map(_requires_grad, parameters))


def _settings(
    label: str, optimizer: torch.optim.Optimizer, warn: Callable[[str], None]
) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of an optimizer's groups: ``AdamW/lr``, ``AdamW/betas_0``, then ``AdamW/group1/lr``."""
    for index, group in enumerate(optimizer.param_groups):
        prefix = f"{label}/" + (f"group{index}/" if index else "")
        for name, value in group.items():
            parts = (
                {f"{name}_{at}": part for at, part in enumerate(value)} if isinstance(value, tuple) else {name: value}
            )
            for key, part in parts.items() if name != "params" else ():
                try:
                    number = _number(part)
                except (
                    TypeError,
                    ValueError,
                    RuntimeError,
                    OverflowError,
                ) as error:  # a tensor of the script's own kind
                    warn(f"{prefix}{key} is not captured: {error}")
                    continue
                if number is not None:
                    yield prefix + key, number


def _number(value: Any) -> Number | None:
    """Return a setting as a number; None: it is none."""
    if isinstance(value, torch.Tensor):
        return number_of(value) if value.numel() == 1 and not value.is_meta else None
    return float(value) if isinstance(value, (int, float)) else None
