"""Capturing one optimizer's gradients, weights and variables: what to compute is settled once, then only run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from leadline.frameworks.torch.capture.device_copy import DeviceCopies, LateRow, Vector, is_recording, quietly
from leadline.frameworks.torch.capture.raw_tensors import RawForm, why_not_raw
from leadline.frameworks.torch.capture.tensor_specs import ON_UPDATE, PLAIN, SpecGroup, State, TensorSpec, group
from leadline.frameworks.torch.kernels.array_statistics import named_vectors
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import flatten, local, why_unreadable
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.frameworks.torch.kernels.samples import sample_of
from leadline.records.names import GRADIENT_NORMS
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.pending import Pending


class ProgramSpecs:
    """What is asked of one optimizer's tensors, and where they are.

    Args:
        fixed: Of parameters and gradients.
        variables: Gives those of the optimizer's variables, which come and go.
        norm: What the norm of all gradients is called; None: it is not asked for.
        state: What the optimizer keeps.
        scale: Gives the factor that is still in the gradients.
    """

    def __init__(
        self,
        fixed: Sequence[TensorSpec],
        variables: Callable[[], list[TensorSpec]],
        norm: str | None,
        state: Callable[[], State],
        scale: Callable[[], torch.Tensor | None],
    ) -> None:
        self.norm, self.state, self.scale = norm, state, scale
        self.fixed = fixed
        self.all = list(fixed)
        self.groups: list[SpecGroup] = []
        self._variables = variables
        self._extent: tuple[int, int] | None = None

    def look_again(self) -> bool:
        """Whether the optimizer keeps more or other variables than when this was last asked."""
        state = self.state()
        extent = (len(state), sum(map(len, state.values())))
        if extent == self._extent:
            return False
        self._extent = extent
        self.all = [*self.fixed, *self._variables()]
        self.settle()
        return True

    def settle(self) -> None:
        """Sort out what is computed together, by the devices on which things are now."""
        self.groups = group(self.all, self.state(), with_norm=self.norm is not None)


@dataclass(slots=True)
class _Come:
    """What of a group is there in a step."""

    group: SpecGroup
    present: list[bool]
    tensors: list[torch.Tensor]


class TorchProgram:
    """See ``leadline.frameworks.adapter.Program``."""

    def __init__(
        self,
        wishes: ProgramSpecs,
        before: Before | None,
        changes: Deltas,
        tell: Callable[[str], None],
        *,
        device_bytes: int = 0,
    ) -> None:
        """
        Args:
            changes: Remembers what tensors were at their previous capture.
            device_bytes: What copies may take on a device.
        """
        self._wishes = wishes
        self._before = before
        self._changes = changes
        self._tell = tell
        self._device_bytes = device_bytes
        self._layouts: dict[tuple[bool, ...], SeriesLayout] = {}
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._filled: tuple[RawForm, list[torch.Tensor]] | None = None
        self._is_blind = False
        updates = [(wish.info, (ON_UPDATE,)) for wish in wishes.fixed if ON_UPDATE in wish.statistics]
        self.update_layout = _layout(updates) if updates else None

    def before(self) -> tuple[SeriesLayout, bytes | LateRow] | None:
        with quietly():
            self._is_blind = any(is_recording(wish.parameter.device) for wish in self._wishes.fixed[:1])
            if self._is_blind:
                self._tell("a step is recorded as a CUDA graph: nothing of it, nor of its replays, is captured")
                return None
            if self._before is not None:
                self._before.remember()
            return self._statistics()

    def after(self) -> bytes | LateRow | None:
        if self._before is None or self._is_blind:
            return None
        with quietly():
            return self._before.ratios()

    def raw_form(self) -> CaptureForm | None:
        if self._is_blind:
            return None
        with quietly():
            present = self._whole()
            if not present:
                return None
            key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in present)
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = RawForm(present, "train")
            self._filled = (form, [tensor for _, tensor in present])
            return form.form

    def _whole(self) -> list[tuple[str, torch.Tensor]]:
        """What is stored as a tensor: those that are asked for themselves, and statistics that are arrays."""
        scale, state = self._wishes.scale(), self._wishes.state()
        found: list[tuple[str, torch.Tensor]] = []
        alike: dict[tuple[tuple[str, ...], torch.device], tuple[list[str], list[torch.Tensor]]] = {}
        for wish in self._wishes.all:
            tensor = wish.read(scale, state) if wish.is_raw or wish.arrays else None
            if tensor is None:
                continue
            if wish.is_raw and self._is_storable(wish.info.name, tensor):
                found.append((wish.info.name, tensor))
            if wish.arrays and why_unreadable(tensor) is None:
                names, tensors = alike.setdefault((wish.arrays, tensor.device), ([], []))
                names.append(wish.info.name)
                tensors.append(tensor)
        for (statistics, _), (names, tensors) in alike.items():
            found += named_vectors(names, tensors, statistics)
        return found

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        filled, self._filled = self._filled, None
        if filled is None or buffer is None:
            return None
        form, tensors = filled
        with quietly():
            return form.fill(buffer, tensors, self._device_bytes)

    def _is_storable(self, name: str, tensor: torch.Tensor) -> bool:
        why = why_not_raw(tensor)
        if why is not None:
            self._tell(f"{name} is not stored: {why}")
        return why is None

    def _statistics(self) -> tuple[SeriesLayout, bytes | LateRow] | None:
        if self._wishes.look_again():
            self._layouts.clear()
        come = self._come()
        if any(len({tensor.device for tensor in each.tensors}) > 1 for each in come):
            self._layouts.clear()
            self._wishes.settle()  # something has moved to another device
            come = self._come()
        readout = DeviceCopies()
        for each in come:
            if each.tensors:
                there = [wish.info.name for wish, is_there in _both(each) if is_there]
                readout.statistics(each.tensors, each.group.statistics, PreviousValues(self._changes, there))
        if not any(each.tensors for each in come):
            return None
        present = tuple(is_present for each in come for is_present in each.present)
        # what concludes later must hold no tensor of the training
        plans = [_told(each, has_norm=self._wishes.norm is not None) for each in come if each.tensors]
        return self._layout(present), readout.close(lambda parts: _conclude(plans, parts))

    def _come(self) -> list[_Come]:
        scale, state = self._wishes.scale(), self._wishes.state()
        come = []
        for each in self._wishes.groups:
            tensors = [self._readable(wish, scale, state) for wish in each.wishes]
            found = [tensor for tensor in tensors if tensor is not None]
            come.append(_Come(each, [tensor is not None for tensor in tensors], found))
        return come

    def _readable(self, wish: TensorSpec, scale: torch.Tensor | None, state: State) -> torch.Tensor | None:
        if wish.is_plain and scale is None:
            plain = wish.parameter.grad if wish.is_gradient else wish.parameter
            if plain is None or (plain.layout is torch.strided and type(plain) in PLAIN):
                return plain
        tensor = wish.read(scale, state)
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
            groups, has_gradient = [], False
            for each in self._wishes.groups:
                there = [wish for wish in each.wishes if next(is_present)]
                has_gradient = has_gradient or any(wish.is_gradient for wish in there)
                if each.is_told:
                    groups.append((each.statistics, [wish.info for wish in there]))
            if has_gradient and self._wishes.norm is not None:
                groups.append((("value",), [TensorInfo(self._wishes.norm, (GRADIENT_NORMS,), (), "float64")]))
            known = self._layouts[present] = _layout_by_statistic(groups)
        return known


@dataclass(frozen=True, slots=True)
class _Told:
    """What becomes of a group's numbers."""

    is_told: bool
    norms: tuple[int, ...] | None
    """Where among them the l2 of gradients stand, for the norm of all; None: there is no gradient. Gradients without an
    element (of this process's shard) have no norm of their own."""


def _told(come: _Come, *, has_norm: bool) -> _Told:
    if not has_norm or "l2" not in come.group.statistics:
        return _Told(come.group.is_told, None)
    start = come.group.statistics.index("l2") * len(come.tensors)
    there = [wish for wish, is_there in _both(come) if is_there]
    gradients = [at for at, wish in enumerate(there) if wish.is_gradient]
    norms = tuple(start + at for at in gradients if come.tensors[at].numel())
    return _Told(come.group.is_told, norms if gradients else None)


def _conclude(told: Sequence[_Told], parts: Sequence[Vector]) -> Vector:
    """The row: what is told of the groups, and the norm of all gradients from what is known of each."""
    row = [part for each, part in zip(told, parts, strict=True) if each.is_told]
    norms = [part[list(each.norms)] for each, part in zip(told, parts, strict=True) if each.norms is not None]
    if norms:
        with np.errstate(all="ignore"):
            row.append(np.sqrt(np.square(np.concatenate(norms)).sum(keepdims=True)))
    return np.concatenate(row)


def _both(come: _Come) -> Iterator[tuple[TensorSpec, bool]]:
    return zip(come.group.wishes, come.present, strict=True)


class Before:
    """Weights as they are before an update: whole copies within the memory limit, else a strided sample."""

    def __init__(self, wishes: Sequence[TensorSpec], device_bytes: int) -> None:
        self._wishes = wishes
        size = sum(wish.parameter.numel() * wish.parameter.element_size() for wish in wishes)
        self.is_sampled = size > device_bytes
        self.bytes = 0 if self.is_sampled else size
        """What the copies take of the device."""
        self._copies: list[torch.Tensor] = []

    def remember(self) -> None:
        current = self._read()
        if [(each.shape, each.device) for each in self._copies] != [(each.shape, each.device) for each in current]:
            self._copies = [torch.empty_like(each) for each in current]
        torch._foreach_copy_(self._copies, current)

    def ratios(self) -> bytes | LateRow:
        """Norm of the change over norm before, of each tensor."""
        changed = list(torch._foreach_sub(self._read(), self._copies))
        by_device: dict[torch.device, list[int]] = {}
        for index, each in enumerate(changed):
            by_device.setdefault(each.device, []).append(index)
        readout = DeviceCopies()
        for indices in by_device.values():
            both = [*(changed[index] for index in indices), *(self._copies[index] for index in indices)]
            readout.statistics(both, ("l2",))

        count = len(changed)

        def conclude(parts: list[Vector]) -> Vector:
            ratios = np.empty(count)
            for indices, norms in zip(by_device.values(), parts, strict=True):
                change, norm = norms[: len(indices)], norms[len(indices) :]
                with np.errstate(all="ignore"):
                    ratios[indices] = np.where((norm == 0) & (change == 0), 0.0, change / norm)
            return ratios

        return readout.close(conclude)

    def _read(self) -> list[torch.Tensor]:
        return [self._sample(flatten(local(wish.parameter.detach()))) for wish in self._wishes]

    def _sample(self, flat: torch.Tensor) -> torch.Tensor:
        return sample_of(flat) if self.is_sampled else flat


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
