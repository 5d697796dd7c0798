"""Capture specs of one optimizer's tensors: its parameters, their gradients and its variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeGuard

import torch

from leadline.frameworks.kit.named_tensor import GRADIENTS, ON_UPDATE, may_select
from leadline.frameworks.torch.capture.requests import KernelRequest, Requests
from leadline.frameworks.torch.capture.shards import shard_of
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason
from leadline.frameworks.torch.kernels.stacks import are_dense
from leadline.frameworks.torch.naming.model_names import NamedParameter
from leadline.records.names import OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo

_PLAIN: Final = frozenset({torch.nn.Parameter, torch.Tensor})
"""Types of ordinary tensors."""
_VARIABLE: Final = (OPTIMIZER_VARIABLES,)

State = Mapping[torch.Tensor, Mapping[str, Any]]
"""Optimizer state: for each parameter its variables by name."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Capture spec of one tensor: a parameter, its gradient, or a variable that the optimizer keeps for it."""

    info: TensorInfo
    parameter: torch.Tensor
    statistics: tuple[str, ...]
    """Scalar statistics of the tensor, sorted."""
    arrays: tuple[str, ...]
    """Array statistics."""
    is_raw: bool
    has_update_ratio: bool = False
    is_gradient: bool = False
    variable: str = ""
    """Name of the variable in the optimizer state; empty: not a variable."""
    is_plain: bool = False
    """Whether the parameter is an ordinary dense tensor, so that neither it nor its gradient needs a check."""

    def read(self, scale: torch.Tensor | None, state: State) -> torch.Tensor | None:
        """Return the current tensor, a gradient without its scale; None if there is none (no gradient was computed)."""
        if self.variable:
            tensor = state.get(self.parameter, {}).get(self.variable)
        else:
            tensor = gradient_of(self.parameter) if self.is_gradient else self.parameter
        if tensor is None:
            return None
        values = local(tensor.detach())
        return values / scale if self.is_gradient and scale is not None else values


def gradient_of(parameter: torch.Tensor) -> torch.Tensor | None:
    """Return a parameter's gradient; what a parameter has from before it was frozen is none."""
    return parameter.grad if parameter.requires_grad else None


_requires_grad: Final = attrgetter("requires_grad")


@dataclass
class SpecGroup:
    """Specs with the same statistics on one device, which are computed together."""

    statistics: tuple[str, ...]
    specs: list[TensorSpec] = field(default_factory=list)
    is_requested: bool = True
    """Whether its statistics are requested; otherwise they only serve the norm of all gradients."""

    @cached_property
    def is_plain(self) -> bool:
        """Whether all specs are plain."""
        return all(spec.is_plain for spec in self.specs)

    def plain(self) -> list[torch.Tensor | None]:
        """Return the parameters or gradients of plain specs in order."""
        if not self._are_gradients:
            return [gradient_of(spec.parameter) if spec.is_gradient else spec.parameter for spec in self.specs]
        parameters = self._parameters
        if all(map(_requires_grad, parameters)):
            return [parameter.grad for parameter in parameters]
        return [gradient_of(parameter) for parameter in parameters]

    @cached_property
    def _are_gradients(self) -> bool:
        return all(spec.is_gradient for spec in self.specs)

    @cached_property
    def _parameters(self) -> list[torch.Tensor]:
        return [spec.parameter for spec in self.specs]


def specs_of(named: NamedParameter, requests: Requests) -> list[TensorSpec]:
    """Return the specs of a parameter and of its gradient."""
    specs = []
    parameter, collections = named.parameter, named.collections
    is_plain = type(parameter) in _PLAIN and unreadable_reason(parameter) is None
    of_gradient = requests.of(gradient_name(named.name), GRADIENTS)
    if of_gradient.numbers or of_gradient.arrays or of_gradient.is_raw:
        info = _info(gradient_name(named.name), GRADIENTS, parameter, of_gradient.custom)
        specs.append(_spec(info, parameter, of_gradient, is_gradient=True, is_plain=is_plain))
    request = requests.of(named.name, collections)
    has_update_ratio = ON_UPDATE in request.statistics and parameter.requires_grad
    if has_update_ratio or request.numbers or request.arrays or request.is_raw:
        info = _info(named.name, collections, parameter, request.custom)
        specs.append(_spec(info, parameter, request, has_update_ratio=has_update_ratio, is_plain=is_plain))
    return specs


def variables_of(label: str, named: Sequence[NamedParameter], state: State, requests: Requests) -> list[TensorSpec]:
    """Return the specs of an optimizer's current variables: ``AdamW/exp_avg/fc.weight``; step counts are left out."""
    specs = []
    for updated in named:
        parameter = updated.parameter
        for variable, value in state.get(parameter, {}).items():
            if not isinstance(value, torch.Tensor) or (not value.dim() and parameter.dim()) or variable == "step":
                continue
            name = f"{label}/{variable}/{updated.name}"
            request = requests.of(name, _VARIABLE)
            if request.numbers or request.arrays or request.is_raw:
                info = _info(name, _VARIABLE, value, request.custom)
                specs.append(_spec(info, parameter, request, variable=variable))
    return specs


def variable_items(items: Sequence[CaptureItem]) -> list[CaptureItem]:
    """Return the items that may select optimizer variables; ``all`` does so only if the user requested it."""
    return [item for item in items if may_select([item], OPTIMIZER_VARIABLES)]


def group_specs(specs: Sequence[TensorSpec], state: State, *, with_norm: bool) -> list[SpecGroup]:
    """Group the specs that can be computed together.

    Args:
        with_norm: Whether the l2 of every gradient is needed, including gradients for which it is not requested.
    """
    groups: dict[tuple[Any, ...], SpecGroup] = {}
    for spec in specs:
        statistics, device = spec.statistics, _device(spec, state)
        if statistics:
            _group(groups, (statistics, device, True)).specs.append(spec)
        if with_norm and spec.is_gradient and "l2" not in statistics:
            _group(groups, (("l2",), device, False)).specs.append(spec)
    return list(groups.values())


def _group(groups: dict[tuple[Any, ...], SpecGroup], key: tuple[tuple[str, ...], torch.device, bool]) -> SpecGroup:
    group = groups.get(key)
    if group is None:
        group = groups[key] = SpecGroup(key[0], is_requested=key[2])
    return group


def unrequested_gradients(named: Sequence[NamedParameter], specs: Sequence[TensorSpec]) -> Iterator[TensorSpec]:
    """Yield specs of the gradients that no item selects, for the norm of all gradients."""
    requested = {id(spec.parameter) for spec in specs if spec.is_gradient}
    for updated in named:
        parameter = updated.parameter
        if id(parameter) not in requested and parameter.requires_grad:
            is_plain = type(parameter) in _PLAIN and unreadable_reason(parameter) is None
            info = _info(gradient_name(updated.name), GRADIENTS, parameter, ())
            yield TensorSpec(info, parameter, (), (), is_raw=False, is_gradient=True, is_plain=is_plain)


def _spec(
    info: TensorInfo,
    parameter: torch.Tensor,
    request: KernelRequest,
    *,
    has_update_ratio: bool = False,
    is_gradient: bool = False,
    variable: str = "",
    is_plain: bool = False,
) -> TensorSpec:
    return TensorSpec(
        info,
        parameter,
        request.numbers,
        request.arrays,
        request.is_raw,
        has_update_ratio=has_update_ratio,
        is_gradient=is_gradient,
        variable=variable,
        is_plain=is_plain,
    )


def are_plain(tensors: Sequence[torch.Tensor | None]) -> TypeGuard[list[torch.Tensor]]:
    """Whether all tensors exist and are ordinary dense ones."""
    return set(map(type, tensors)) <= _PLAIN and are_dense(tensors)


def _info(name: str, collections: tuple[str, ...], tensor: torch.Tensor, custom: tuple[str, ...]) -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(name, (*collections, *custom), tuple(tensor.shape), dtype, shard_of(tensor))


def _device(spec: TensorSpec, state: State) -> torch.device:
    tensor = None if spec.is_plain else spec.read(None, state)
    return spec.parameter.device if tensor is None else tensor.device
