"""Capturing one optimizer's gradients and weights: what to compute is settled once, then only run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from leadline.frameworks.torch.elements import flatten, local, why_unreadable
from leadline.frameworks.torch.models import NamedParameter, Names, parameters_of
from leadline.frameworks.torch.raw import RawForm, why_not_raw
from leadline.frameworks.torch.statistics import device_statistics
from leadline.records.names import gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.definitions import SAMPLE_ELEMENTS
from leadline.store.tensors import CaptureForm, HostBuffer

_ON_UPDATE: Final = "update_ratio"
_PLAIN: Final = (torch.nn.Parameter, torch.Tensor)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is asked of one tensor: a parameter, or its gradient."""

    info: TensorInfo
    parameter: torch.Tensor
    is_gradient: bool
    statistics: frozenset[str]
    is_raw: bool
    is_plain: bool
    """Whether the parameter is a dense tensor of no special kind, so that neither it nor its gradient needs a look."""

    def read(self, scale: torch.Tensor | None) -> torch.Tensor | None:
        """The tensor as it is now, a gradient without its scale; None where there is none (it did not come)."""
        found = self.parameter.grad if self.is_gradient else self.parameter
        if found is None:
            return None
        own = local(found.detach())
        return own / scale if self.is_gradient and scale is not None else own


@dataclass(slots=True)
class _Group:
    """Wishes with the same statistics on one device, which are computed together."""

    statistics: tuple[str, ...]
    wishes: list[_Wish] = field(default_factory=list)


class TorchProgram:
    """See ``leadline.probes.adapter.Program``."""

    def __init__(
        self,
        wishes: Sequence[_Wish],
        before: _Before | None,
        tell: Callable[[str], None],
        scale: Callable[[], torch.Tensor | None],
    ) -> None:
        """
        Args:
            scale: Gives the factor that is still in the gradients.
        """
        self._groups = _group(wishes)
        self._raw = [wish for wish in wishes if wish.is_raw]
        self._before = before
        self._tell = tell
        self._scale = scale
        self._layouts: dict[tuple[bool, ...], SeriesLayout] = {}
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._filled: tuple[RawForm, list[torch.Tensor]] | None = None
        updates = [(wish.info, (_ON_UPDATE,)) for wish in wishes if _ON_UPDATE in wish.statistics]
        self.update_layout = _layout(updates) if updates else None

    def before(self) -> tuple[SeriesLayout, Any] | None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if self._before is not None:
                self._before.remember()
            return self._statistics()

    def after(self) -> Any:
        if self._before is None:
            return None
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return self._before.ratios().astype("<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            scale = self._scale()
            named = [(wish.info.name, wish.read(scale)) for wish in self._raw]
            present = [
                (name, tensor) for name, tensor in named if tensor is not None and self._is_storable(name, tensor)
            ]
            if not present:
                return None
            key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in present)
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = RawForm(present, "train")
            self._filled = (form, [tensor for _, tensor in present])
            return form.form

    def fill(self, buffer: HostBuffer) -> None:
        if self._filled is None:
            return
        form, tensors = self._filled
        self._filled = None
        with torch._C.DisableTorchFunction(), torch.no_grad():
            form.fill(buffer, tensors)

    def _is_storable(self, name: str, tensor: torch.Tensor) -> bool:
        why = why_not_raw(tensor)
        if why is not None:
            self._tell(f"{name} is not stored: {why}")
        return why is None

    def _statistics(self) -> tuple[SeriesLayout, Any] | None:
        present: list[bool] = []
        parts: list[np.ndarray[Any, Any]] = []
        scale = self._scale()
        for group in self._groups:
            tensors = [self._readable(wish, scale) for wish in group.wishes]
            present += [tensor is not None for tensor in tensors]
            found = [tensor for tensor in tensors if tensor is not None]
            if found:
                computed = device_statistics(found, frozenset(group.statistics))
                parts += [computed[name] for name in group.statistics]
        if not parts:
            return None
        return self._layout(tuple(present)), np.concatenate(parts).astype("<f8").tobytes()

    def _readable(self, wish: _Wish, scale: torch.Tensor | None) -> torch.Tensor | None:
        if wish.is_plain and scale is None:
            plain = wish.parameter.grad if wish.is_gradient else wish.parameter
            if plain is None or (plain.layout is torch.strided and type(plain) in _PLAIN):
                return plain
        tensor = wish.read(scale)
        if tensor is None:
            return None
        why = why_unreadable(tensor)
        if why is not None:
            self._tell(f"{wish.info.name} is not read: {why}")
            return None
        return tensor

    def _layout(self, present: tuple[bool, ...]) -> SeriesLayout:
        known = self._layouts.get(present)
        if known is None:
            is_present = iter(present)
            groups = [
                (group.statistics, [wish.info for wish in group.wishes if next(is_present)]) for group in self._groups
            ]
            known = self._layouts[present] = _layout_by_statistic(groups)
        return known


class _Before:
    """Weights as they are before an update: whole copies within the memory limit, else a strided sample."""

    def __init__(self, wishes: Sequence[_Wish], device_bytes: int) -> None:
        self._wishes = wishes
        size = sum(wish.parameter.numel() * wish.parameter.element_size() for wish in wishes)
        self._is_sampled = size > device_bytes
        self._copies: list[torch.Tensor] = []

    def remember(self) -> None:
        current = self._read()
        if [copy.shape for copy in self._copies] != [each.shape for each in current]:
            self._copies = [torch.empty_like(each) for each in current]
        torch._foreach_copy_(self._copies, current)

    def ratios(self) -> np.ndarray[Any, Any]:
        """Norm of the change over norm before, of each tensor."""
        changed = list(torch._foreach_sub(self._read(), self._copies))
        squares = device_statistics([*changed, *self._copies], frozenset({"l2"}))["l2"]
        change, norm = squares[: len(changed)], squares[len(changed) :]
        with np.errstate(all="ignore"):
            return np.where((norm == 0) & (change == 0), 0.0, change / norm)

    def _read(self) -> list[torch.Tensor]:
        return [self._sample(flatten(local(wish.parameter.detach()))) for wish in self._wishes]

    def _sample(self, flat: torch.Tensor) -> torch.Tensor:
        if not self._is_sampled or flat.numel() <= SAMPLE_ELEMENTS:
            return flat
        return flat[:: -(-flat.numel() // SAMPLE_ELEMENTS)]


class TorchSubject:
    """See ``leadline.probes.adapter.Subject``."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: Names, tell: Callable[[str], None]) -> None:
        self.model, self._named = names.name(optimizer)
        self.optimizer = type(optimizer).__name__
        self._tell = tell
        own = {id(parameter) for parameter in parameters_of(optimizer)}
        self.parameters = len(own)
        self._ids = own
        self._optimizer = weakref.ref(optimizer)
        self._befores: dict[tuple[str, ...], _Before] = {}

    def is_current(self) -> bool:
        optimizer = self._optimizer()
        return optimizer is not None and {id(parameter) for parameter in parameters_of(optimizer)} == self._ids

    def hyperparameters(self) -> dict[str, float]:
        optimizer = self._optimizer()
        return {} if optimizer is None else dict(_settings(optimizer))

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> TorchProgram | None:
        wishes = [wish for named in self._named for wish in _wishes(named, items)]
        if not wishes:
            return None
        return TorchProgram(wishes, self._before(wishes, device_bytes), self._tell, self._scale)

    def _scale(self) -> torch.Tensor | None:
        """What a gradient scaler leaves to a fused optimizer to divide by; None outside of such a step."""
        return getattr(self._optimizer(), "grad_scale", None)

    def _before(self, wishes: Sequence[_Wish], device_bytes: int) -> _Before | None:
        """The memory of weights before an update; programs for the same weights share it."""
        updates = [wish for wish in wishes if _ON_UPDATE in wish.statistics]
        if not updates:
            return None
        key = tuple(wish.info.name for wish in updates)
        if key not in self._befores:
            self._befores[key] = _Before(updates, device_bytes)
        return self._befores[key]


def _settings(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, float]]:
    """Each number of an optimizer's groups: ``AdamW/lr``, ``AdamW/betas_0``; of further groups ``AdamW/group1/lr``."""
    for index, group in enumerate(optimizer.param_groups):
        prefix = f"{type(optimizer).__name__}/" + (f"group{index}/" if index else "")
        for name, value in group.items():
            parts = (
                {f"{name}_{at}": each for at, each in enumerate(value)} if isinstance(value, tuple) else {name: value}
            )
            for key, each in parts.items() if name != "params" else ():
                if isinstance(each, torch.Tensor):
                    each = each.item() if each.numel() == 1 and each.device.type == "cpu" else None
                if isinstance(each, (int, float)):
                    yield prefix + key, float(each)


def _wishes(named: NamedParameter, items: Sequence[CaptureItem]) -> list[_Wish]:
    found = []
    both = ((gradient_name(named.name), ("gradients",), True), (named.name, named.collections, False))
    for name, collections, is_gradient in both:
        chosen = [item for item in items if item.selects(name, frozenset(collections))]
        statistics = frozenset(each for item in chosen for each in item.statistics) - {"value"}
        statistics -= {_ON_UPDATE} if is_gradient or not named.parameter.requires_grad else set()
        is_raw = any(item.raw for item in chosen)
        if statistics or is_raw:
            dtype = str(named.parameter.dtype).removeprefix("torch.")
            info = TensorInfo(name, collections, tuple(named.parameter.shape), dtype)
            is_plain = type(named.parameter) in _PLAIN and why_unreadable(named.parameter) is None
            found.append(_Wish(info, named.parameter, is_gradient, statistics, is_raw, is_plain))
    return found


def _group(wishes: Sequence[_Wish]) -> list[_Group]:
    groups: dict[tuple[Any, ...], _Group] = {}
    for wish in wishes:
        statistics = tuple(sorted(wish.statistics - {_ON_UPDATE}))
        if statistics:
            key = (statistics, wish.parameter.device)
            groups.setdefault(key, _Group(statistics)).wishes.append(wish)
    return list(groups.values())


def _layout(tensors: Sequence[tuple[TensorInfo, tuple[str, ...]]]) -> SeriesLayout:
    columns = [(index, name) for index, (_, names) in enumerate(tensors) for name in names]
    return _intern(SeriesLayout(tuple(info for info, _ in tensors), tuple(columns)))


def _layout_by_statistic(groups: Sequence[tuple[tuple[str, ...], list[TensorInfo]]]) -> SeriesLayout:
    """Tensors of each group in order, columns statistic by statistic, as the kernels give them."""
    tensors: list[TensorInfo] = []
    columns: list[tuple[int, str]] = []
    for statistics, infos in groups:
        first = len(tensors)
        tensors += infos
        columns += [(first + index, name) for name in statistics for index in range(len(infos))]
    return _intern(SeriesLayout(tuple(tensors), tuple(columns)))


_LAYOUTS: Final[dict[SeriesLayout, SeriesLayout]] = {}


def _intern(found: SeriesLayout) -> SeriesLayout:
    """One object for equal layouts, so that their rows share a segment."""
    return _LAYOUTS.setdefault(found, found)
