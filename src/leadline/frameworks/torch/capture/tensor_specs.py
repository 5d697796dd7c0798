"""What is asked of one optimizer's tensors: its parameters, their gradients, and what it keeps for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from leadline.frameworks.torch.kernels.array_statistics import split
from leadline.frameworks.torch.kernels.elements import local, why_unreadable
from leadline.frameworks.torch.naming.parameter_names import NamedParameter
from leadline.records.names import GRADIENT_NORMS, OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import TensorInfo

ON_UPDATE: Final = "update_ratio"
PLAIN: Final = (torch.nn.Parameter, torch.Tensor)
"""Dense tensors of no special kind are of these types."""

State = Mapping[torch.Tensor, Mapping[str, Any]]
"""What an optimizer keeps: for each parameter its variables by name."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is asked of one tensor: a parameter, its gradient, or a variable that the optimizer keeps for it."""

    info: TensorInfo
    parameter: torch.Tensor
    statistics: frozenset[str]
    """Those that are numbers."""
    arrays: tuple[str, ...]
    """Those that are arrays."""
    is_raw: bool
    is_gradient: bool = False
    variable: str = ""
    """The name under which the optimizer keeps it; empty: it is no such variable."""
    is_plain: bool = False
    """Whether the parameter is a dense tensor of no special kind, so that neither it nor its gradient needs a look."""

    def read(self, scale: torch.Tensor | None, state: State) -> torch.Tensor | None:
        """The tensor as it is now, a gradient without its scale; None where there is none (it did not come)."""
        if self.variable:
            found = state.get(self.parameter, {}).get(self.variable)
        else:
            found = self.parameter.grad if self.is_gradient else self.parameter
        if found is None:
            return None
        own = local(found.detach())
        return own / scale if self.is_gradient and scale is not None else own


@dataclass(slots=True)
class SpecGroup:
    """Wishes with the same statistics on one device, which are computed together."""

    statistics: tuple[str, ...]
    wishes: list[TensorSpec] = field(default_factory=list)
    is_told: bool = True
    """Whether its statistics are asked for; else they only serve the norm of all gradients."""


def specs_of(named: NamedParameter, items: Sequence[CaptureItem]) -> list[TensorSpec]:
    """What is asked of a parameter and of its gradient."""
    found = []
    both = ((gradient_name(named.name), ("gradients",), True), (named.name, named.collections, False))
    for name, collections, is_gradient in both:
        statistics, arrays, is_raw = _asked(name, collections, items)
        statistics -= {ON_UPDATE} if is_gradient or not named.parameter.requires_grad else set()
        if statistics or arrays or is_raw:
            is_plain = type(named.parameter) in PLAIN and why_unreadable(named.parameter) is None
            info = _info(name, collections, named.parameter, items)
            found.append(TensorSpec(info, named.parameter, statistics, arrays, is_raw, is_gradient, is_plain=is_plain))
    return found


def variables_of(
    label: str, named: Sequence[NamedParameter], state: State, items: Sequence[CaptureItem]
) -> list[TensorSpec]:
    """What is asked of what an optimizer keeps by now: ``AdamW/exp_avg/fc.weight``; its step counts are left out."""
    found = []
    collections = (OPTIMIZER_VARIABLES,)
    for each in named:
        for variable, kept in state.get(each.parameter, {}).items():
            if not isinstance(kept, torch.Tensor) or (not kept.dim() and each.parameter.dim()) or variable == "step":
                continue
            name = f"{label}/{variable}/{each.name}"
            statistics, arrays, is_raw = _asked(name, collections, items)
            statistics -= {ON_UPDATE}
            if statistics or arrays or is_raw:
                info = _info(name, collections, kept, items)
                found.append(TensorSpec(info, each.parameter, statistics, arrays, is_raw, variable=variable))
    return found


def of_variables(items: Sequence[CaptureItem]) -> list[CaptureItem]:
    """Those wishes that may mean an optimizer's variables; ``all`` does only where the user said it."""
    return [item for item in items if item.collection in (None, OPTIMIZER_VARIABLES) or _is_all(item)]


def wants_norm(name: str, items: Sequence[CaptureItem]) -> bool:
    """Whether the norm of all gradients is captured.

    It is where it is asked for (``all`` does so only where the user said it), and where it comes for nothing since
    the l2 of every gradient is asked for.
    """
    collections = frozenset({GRADIENT_NORMS})
    meant = [item for item in items if item.collection in (None, GRADIENT_NORMS) or _is_all(item)]
    return any("value" in item.statistics and item.selects(name, collections) for item in meant) or any(
        item.collection == "gradients" and item.regex is None and "l2" in item.statistics for item in items
    )


def group(wishes: Sequence[TensorSpec], state: State, *, with_norm: bool) -> list[SpecGroup]:
    """What can be computed together.

    Args:
        with_norm: Whether the l2 of every gradient is needed, also of those of which nobody asks it.
    """
    groups: dict[tuple[Any, ...], SpecGroup] = {}
    for wish in wishes:
        statistics = tuple(sorted(wish.statistics - {ON_UPDATE}))
        if statistics:
            groups.setdefault((statistics, _device(wish, state), True), SpecGroup(statistics)).wishes.append(wish)
        if with_norm and wish.is_gradient and "l2" not in statistics:
            hidden = groups.setdefault((("l2",), _device(wish, state), False), SpecGroup(("l2",), is_told=False))
            hidden.wishes.append(wish)
    return list(groups.values())


def bare_gradients(named: Sequence[NamedParameter], wishes: Sequence[TensorSpec]) -> Iterator[TensorSpec]:
    """The gradients of which nothing is asked, for the norm of all of them."""
    asked = {id(wish.parameter) for wish in wishes if wish.is_gradient}
    for each in named:
        if id(each.parameter) not in asked and each.parameter.requires_grad:
            is_plain = type(each.parameter) in PLAIN and why_unreadable(each.parameter) is None
            info = _info(gradient_name(each.name), ("gradients",), each.parameter)
            yield TensorSpec(info, each.parameter, frozenset(), (), is_raw=False, is_gradient=True, is_plain=is_plain)


def _asked(
    name: str, collections: tuple[str, ...], items: Sequence[CaptureItem]
) -> tuple[frozenset[str], tuple[str, ...], bool]:
    """The statistics that are numbers, those that are arrays, and whether the tensor itself is stored."""
    chosen = [item for item in items if item.selects(name, frozenset(collections))]
    numbers, arrays = split(each for item in chosen for each in item.statistics)
    return frozenset(numbers), arrays, any(item.raw for item in chosen)


def _is_all(item: CaptureItem) -> bool:
    return item.collection == "all" and item.source == "option"


def _info(
    name: str, collections: tuple[str, ...], tensor: torch.Tensor, items: Sequence[CaptureItem] = ()
) -> TensorInfo:
    collections = (*collections, *custom_collections(items, name, collections))
    return TensorInfo(name, collections, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _device(wish: TensorSpec, state: State) -> torch.device:
    found = wish.read(None, state)
    return wish.parameter.device if found is None else found.device
