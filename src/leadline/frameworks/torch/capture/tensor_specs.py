"""Capture specs of one optimizer's tensors: its parameters, their gradients and its variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from leadline.frameworks.torch.kernels.array_statistics import split_arrays
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason
from leadline.frameworks.torch.naming.model_names import NamedParameter
from leadline.records.names import GRADIENT_NORMS, OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import TensorInfo

ON_UPDATE: Final = "update_ratio"
PLAIN: Final = (torch.nn.Parameter, torch.Tensor)
"""Types of ordinary dense tensors."""

State = Mapping[torch.Tensor, Mapping[str, Any]]
"""Optimizer state: for each parameter its variables by name."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Capture spec of one tensor: a parameter, its gradient, or a variable that the optimizer keeps for it."""

    info: TensorInfo
    parameter: torch.Tensor
    statistics: frozenset[str]
    """Scalar statistics."""
    arrays: tuple[str, ...]
    """Array statistics."""
    is_raw: bool
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
            tensor = self.parameter.grad if self.is_gradient else self.parameter
        if tensor is None:
            return None
        values = local(tensor.detach())
        return values / scale if self.is_gradient and scale is not None else values


@dataclass(slots=True)
class SpecGroup:
    """Specs with the same statistics on one device, which are computed together."""

    statistics: tuple[str, ...]
    specs: list[TensorSpec] = field(default_factory=list)
    is_requested: bool = True
    """Whether its statistics are requested; otherwise they only serve the norm of all gradients."""


def specs_of(named: NamedParameter, items: Sequence[CaptureItem]) -> list[TensorSpec]:
    """Return the specs of a parameter and of its gradient."""
    specs = []
    both = ((gradient_name(named.name), ("gradients",), True), (named.name, named.collections, False))
    for name, collections, is_gradient in both:
        statistics, arrays, is_raw = _requested(name, collections, items)
        statistics -= {ON_UPDATE} if is_gradient or not named.parameter.requires_grad else set()
        if statistics or arrays or is_raw:
            is_plain = type(named.parameter) in PLAIN and unreadable_reason(named.parameter) is None
            info = _info(name, collections, named.parameter, items)
            specs.append(TensorSpec(info, named.parameter, statistics, arrays, is_raw, is_gradient, is_plain=is_plain))
    return specs


def variables_of(
    label: str, named: Sequence[NamedParameter], state: State, items: Sequence[CaptureItem]
) -> list[TensorSpec]:
    """Return the specs of an optimizer's current variables: ``AdamW/exp_avg/fc.weight``; step counts are left out."""
    specs = []
    collections = (OPTIMIZER_VARIABLES,)
    for updated in named:
        parameter = updated.parameter
        for variable, value in state.get(parameter, {}).items():
            if not isinstance(value, torch.Tensor) or (not value.dim() and parameter.dim()) or variable == "step":
                continue
            name = f"{label}/{variable}/{updated.name}"
            statistics, arrays, is_raw = _requested(name, collections, items)
            statistics -= {ON_UPDATE}
            if statistics or arrays or is_raw:
                info = _info(name, collections, value, items)
                specs.append(TensorSpec(info, parameter, statistics, arrays, is_raw, variable=variable))
    return specs


def variable_items(items: Sequence[CaptureItem]) -> list[CaptureItem]:
    """Return the items that may select optimizer variables; ``all`` does so only if the user requested it."""
    return [item for item in items if item.collection in (None, OPTIMIZER_VARIABLES) or _is_all(item)]


def wants_norm(name: str, items: Sequence[CaptureItem]) -> bool:
    """Whether the norm of all gradients is captured.

    It is if an item selects it (``all`` does so only if the user requested it), or if it is free because the l2 of
    every gradient is captured.
    """
    collections = frozenset({GRADIENT_NORMS})
    candidates = [item for item in items if item.collection in (None, GRADIENT_NORMS) or _is_all(item)]
    return any("value" in item.statistics and item.selects(name, collections) for item in candidates) or any(
        item.collection == "gradients" and item.regex is None and "l2" in item.statistics for item in items
    )


def group_specs(specs: Sequence[TensorSpec], state: State, *, with_norm: bool) -> list[SpecGroup]:
    """Group the specs that can be computed together.

    Args:
        with_norm: Whether the l2 of every gradient is needed, including gradients for which it is not requested.
    """
    groups: dict[tuple[Any, ...], SpecGroup] = {}
    for spec in specs:
        statistics = tuple(sorted(spec.statistics - {ON_UPDATE}))
        if statistics:
            groups.setdefault((statistics, _device(spec, state), True), SpecGroup(statistics)).specs.append(spec)
        if with_norm and spec.is_gradient and "l2" not in statistics:
            hidden = groups.setdefault((("l2",), _device(spec, state), False), SpecGroup(("l2",), is_requested=False))
            hidden.specs.append(spec)
    return list(groups.values())


def unrequested_gradients(named: Sequence[NamedParameter], specs: Sequence[TensorSpec]) -> Iterator[TensorSpec]:
    """Yield specs of the gradients that no item selects, for the norm of all gradients."""
    requested = {id(spec.parameter) for spec in specs if spec.is_gradient}
    for updated in named:
        parameter = updated.parameter
        if id(parameter) not in requested and parameter.requires_grad:
            is_plain = type(parameter) in PLAIN and unreadable_reason(parameter) is None
            info = _info(gradient_name(updated.name), ("gradients",), parameter)
            yield TensorSpec(info, parameter, frozenset(), (), is_raw=False, is_gradient=True, is_plain=is_plain)


def _requested(
    name: str, collections: tuple[str, ...], items: Sequence[CaptureItem]
) -> tuple[frozenset[str], tuple[str, ...], bool]:
    """Return the requested scalar statistics, array statistics, and whether the raw tensor is requested."""
    chosen = [item for item in items if item.selects(name, frozenset(collections))]
    numbers, arrays = split_arrays(statistic for item in chosen for statistic in item.statistics)
    return frozenset(numbers), arrays, any(item.raw for item in chosen)


def _is_all(item: CaptureItem) -> bool:
    return item.collection == "all" and item.source == "option"


def _info(
    name: str, collections: tuple[str, ...], tensor: torch.Tensor, items: Sequence[CaptureItem] = ()
) -> TensorInfo:
    collections = (*collections, *custom_collections(items, name, collections))
    return TensorInfo(name, collections, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _device(spec: TensorSpec, state: State) -> torch.device:
    tensor = spec.read(None, state)
    return spec.parameter.device if tensor is None else tensor.device
