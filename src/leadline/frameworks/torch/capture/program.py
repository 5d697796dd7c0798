"""Programs that capture one optimizer's gradients, weights and variables: planned once, run at many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from leadline.frameworks.adapter import Pending
from leadline.frameworks.torch.capture.device_copy import PendingRow, RowBuilder, Vector, is_recording, untracked
from leadline.frameworks.torch.capture.raw_tensors import RawForm, unstorable_reason
from leadline.frameworks.torch.capture.tensor_specs import ON_UPDATE, PLAIN, SpecGroup, State, TensorSpec, group_specs
from leadline.frameworks.torch.capture.weights_before import WeightsBefore
from leadline.frameworks.torch.kernels.array_statistics import named_vectors
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import unreadable_reason
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.records.names import GRADIENT_NORMS
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.tensors import CaptureForm, HostBuffer


class ProgramSpecs:
    """Capture specs of one optimizer's tensors, grouped by statistics and device.

    Args:
        fixed: Specs of parameters and gradients.
        variables: Returns the specs of the optimizer's variables, which may appear and disappear.
        norm: Name of the norm of all gradients; None: not captured.
        state: Returns the optimizer state.
        scale: Returns the scale that the gradients still contain.
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
        self._size: tuple[int, int] | None = None

    def refresh(self) -> bool:
        """Update the specs if the optimizer state has changed since the last call; return whether it has."""
        state = self.state()
        size = (len(state), sum(map(len, state.values())))
        if size == self._size:
            return False
        self._size = size
        self.all = [*self.fixed, *self._variables()]
        self.regroup()
        return True

    def regroup(self) -> None:
        """Group the specs that are computed together, by the current devices of their tensors."""
        self.groups = group_specs(self.all, self.state(), with_norm=self.norm is not None)


@dataclass(slots=True)
class _PresentTensors:
    """Tensors of a group that exist in a step."""

    spec_group: SpecGroup
    present: list[bool]
    tensors: list[torch.Tensor]


class TorchProgram:
    """See ``leadline.frameworks.adapter.Program``."""

    def __init__(
        self,
        specs: ProgramSpecs,
        before: WeightsBefore | None,
        deltas: Deltas,
        warn: Callable[[str], None],
        *,
        device_bytes: int = 0,
    ) -> None:
        """
        Args:
            deltas: Values of tensors at their previous capture.
            device_bytes: Device memory that copies may use.
        """
        self._specs = specs
        self._before = before
        self._deltas = deltas
        self._warn = warn
        self._device_bytes = device_bytes
        self._layouts: dict[tuple[bool, ...], SeriesLayout] = {}
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._filled: tuple[RawForm, list[torch.Tensor]] | None = None
        self._is_recording = False
        updates = [(spec.info, (ON_UPDATE,)) for spec in specs.fixed if ON_UPDATE in spec.statistics]
        self.update_layout = _layout(updates) if updates else None

    def before(self) -> tuple[SeriesLayout, bytes | PendingRow] | None:
        with untracked():
            self._is_recording = any(is_recording(spec.parameter.device) for spec in self._specs.fixed[:1])
            if self._is_recording:
                self._warn("a step is captured in a CUDA graph: nothing is captured from it or from its replays")
                return None
            if self._before is not None:
                self._before.snapshot()
            return self._statistics()

    def after(self) -> bytes | PendingRow | None:
        if self._before is None or self._is_recording:
            return None
        with untracked():
            return self._before.ratios()

    def raw_form(self) -> CaptureForm | None:
        if self._is_recording:
            return None
        with untracked():
            present = self._tensors_to_store()
            if not present:
                return None
            key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in present)
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = RawForm(present, "train")
            self._filled = (form, [tensor for _, tensor in present])
            return form.form

    def _tensors_to_store(self) -> list[tuple[str, torch.Tensor]]:
        """Return the tensors to store: requested raw tensors, and array statistics."""
        scale, state = self._specs.scale(), self._specs.state()
        to_store: list[tuple[str, torch.Tensor]] = []
        by_statistics: dict[tuple[tuple[str, ...], torch.device], tuple[list[str], list[torch.Tensor]]] = {}
        for spec in self._specs.all:
            tensor = spec.read(scale, state) if spec.is_raw or spec.arrays else None
            if tensor is None:
                continue
            if spec.is_raw and self._is_storable(spec.info.name, tensor):
                to_store.append((spec.info.name, tensor))
            if spec.arrays and unreadable_reason(tensor) is None:
                names, tensors = by_statistics.setdefault((spec.arrays, tensor.device), ([], []))
                names.append(spec.info.name)
                tensors.append(tensor)
        for (statistics, _), (names, tensors) in by_statistics.items():
            to_store += named_vectors(names, tensors, statistics)
        return to_store

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        filled, self._filled = self._filled, None
        if filled is None or buffer is None:
            return None
        form, tensors = filled
        with untracked():
            return form.fill(buffer, tensors, self._device_bytes)

    def _is_storable(self, name: str, tensor: torch.Tensor) -> bool:
        reason = unstorable_reason(tensor)
        if reason is not None:
            self._warn(f"{name} is not stored: {reason}")
        return reason is None

    def _statistics(self) -> tuple[SeriesLayout, bytes | PendingRow] | None:
        if self._specs.refresh():
            self._layouts.clear()
        tensor_groups = self._present_tensors()
        if any(len({tensor.device for tensor in group.tensors}) > 1 for group in tensor_groups):
            self._layouts.clear()
            self._specs.regroup()  # a tensor has moved to another device
            tensor_groups = self._present_tensors()
        builder = RowBuilder()
        for group in tensor_groups:
            if group.tensors:
                available = [spec.info.name for spec, is_present in _with_presence(group) if is_present]
                builder.add_statistics(
                    group.tensors, group.spec_group.statistics, PreviousValues(self._deltas, available)
                )
        if not any(group.tensors for group in tensor_groups):
            return None
        present = tuple(is_present for group in tensor_groups for is_present in group.present)
        # combining happens later and must not hold tensors of the training
        plans = [_group_plan(group, has_norm=self._specs.norm is not None) for group in tensor_groups if group.tensors]
        return self._layout(present), builder.finish(lambda parts: _combine_parts(plans, parts))

    def _present_tensors(self) -> list[_PresentTensors]:
        scale, state = self._specs.scale(), self._specs.state()
        tensor_groups = []
        for group in self._specs.groups:
            tensors = [self._readable(spec, scale, state) for spec in group.specs]
            existing = [tensor for tensor in tensors if tensor is not None]
            tensor_groups.append(_PresentTensors(group, [tensor is not None for tensor in tensors], existing))
        return tensor_groups

    def _readable(self, spec: TensorSpec, scale: torch.Tensor | None, state: State) -> torch.Tensor | None:
        if spec.is_plain and scale is None:
            plain = spec.parameter.grad if spec.is_gradient else spec.parameter
            if plain is None or (plain.layout is torch.strided and type(plain) in PLAIN):
                return plain
        tensor = spec.read(scale, state)
        if tensor is None:
            return None
        reason = unreadable_reason(tensor)
        if reason is not None:
            self._warn(f"{spec.info.name} is not captured: {reason}")
            return None
        return tensor

    def _layout(self, present: tuple[bool, ...]) -> SeriesLayout:
        layout = self._layouts.get(present)
        if layout is None:
            is_present = iter(present)
            groups, has_gradient = [], False
            for group in self._specs.groups:
                available = [spec for spec in group.specs if next(is_present)]
                has_gradient = has_gradient or any(spec.is_gradient for spec in available)
                if group.is_requested:
                    groups.append((group.statistics, [spec.info for spec in available]))
            if has_gradient and self._specs.norm is not None:
                groups.append((("value",), [TensorInfo(self._specs.norm, (GRADIENT_NORMS,), (), "float64")]))
            layout = self._layouts[present] = _layout_by_statistic(groups)
        return layout


@dataclass(frozen=True, slots=True)
class _GroupPlan:
    """Use of a group's numbers in the row."""

    is_requested: bool
    norms: tuple[int, ...] | None
    """Indices of the gradients' l2 among them, for the norm of all; None: the group has no gradient. Gradients without
    elements in this process's shard are left out."""


def _group_plan(present: _PresentTensors, *, has_norm: bool) -> _GroupPlan:
    if not has_norm or "l2" not in present.spec_group.statistics:
        return _GroupPlan(present.spec_group.is_requested, None)
    start = present.spec_group.statistics.index("l2") * len(present.tensors)
    available = [spec for spec, is_present in _with_presence(present) if is_present]
    gradients = [at for at, spec in enumerate(available) if spec.is_gradient]
    norms = tuple(start + at for at in gradients if present.tensors[at].numel())
    return _GroupPlan(present.spec_group.is_requested, norms if gradients else None)


def _combine_parts(plans: Sequence[_GroupPlan], parts: Sequence[Vector]) -> Vector:
    """Build the row: the requested numbers of the groups, and the norm of all gradients from their l2."""
    row = [part for plan, part in zip(plans, parts, strict=True) if plan.is_requested]
    norms = [part[list(plan.norms)] for plan, part in zip(plans, parts, strict=True) if plan.norms is not None]
    if norms:
        with np.errstate(all="ignore"):
            row.append(np.sqrt(np.square(np.concatenate(norms)).sum(keepdims=True)))
    return np.concatenate(row)


def _with_presence(present: _PresentTensors) -> Iterator[tuple[TensorSpec, bool]]:
    return zip(present.spec_group.specs, present.present, strict=True)


def _layout(self, present: tuple[bool, ...]) -> SeriesLayout:
        layout = self._layouts.get(present)
        if layout is None:
            is_present = iter(present)
            groups, has_gradient = [], False
            for group in self._specs.groups:
                available = [spec for spec in group.specs if next(is_present)]
                has_gradient = has_gradient or any(spec.is_gradient for spec in available)
                if group.is_requested:
                    groups.append((group.statistics, [spec.info for spec in available]))
            if has_gradient and self._specs.norm is not None:
                groups.append((("value",), [TensorInfo(self._specs.norm, (GRADIENT_NORMS,), (), "float64")]))
            layout = self._layouts[present] = _layout_by_statistic(groups)
        return layout


@dataclass(frozen=True, slots=True)
class _GroupPlan:
    """Use of a group's numbers in the row."""

    is_requested: bool
    norms: tuple[int, ...] | None
    """Indices of the gradients' l2 among them, for the norm of all; None: the group has no gradient. Gradients without
    elements in this process's shard are left out."""


def _group_plan(present: _PresentTensors, *, has_norm: bool) -> _GroupPlan:
    if not has_norm or "l2" not in present.spec_group.statistics:
        return _GroupPlan(present.spec_group.is_requested, None)
    start = present.spec_group.statistics.index("l2") * len(present.tensors)
    available = [spec for spec, is_present in _with_presence(present) if is_present]
    gradients = [at for at, spec in enumerate(available) if spec.is_gradient]
    norms = tuple(start + at for at in gradients if present.tensors[at].numel())
    return _GroupPlan(present.spec_group.is_requested, norms if gradients else None)


def _combine_parts(plans: Sequence[_GroupPlan], parts: Sequence[Vector]) -> Vector:
    """Build the row: the requested numbers of the groups, and the norm of all gradients from their l2."""
    row = [part for plan, part in zip(plans, parts, strict=True) if plan.is_requested]
    norms = [part[list(plan.norms)] for plan, part in zip(plans, parts, strict=True) if plan.norms is not None]
    if norms:
        with np.errstate(all="ignore"):
            row.append(np.sqrt(np.square(np.concatenate(norms)).sum(keepdims=True)))
    return np.concatenate(row)


def _with_presence(present: _PresentTensors) -> Iterator[tuple[TensorSpec, bool]]:
    return zip(present.spec_group.specs, present.present, strict=True)


class WeightsBefore:
    """Copies of weights before an update: full copies within the memory limit, else a strided sample."""

    def __init__(self, specs: Sequence[TensorSpec], device_bytes: int) -> None:
        self._specs = specs
        size = sum(spec.parameter.numel() * spec.parameter.element_size() for spec in specs)
        self.is_sampled = size > device_bytes
        self.bytes = 0 if self.is_sampled else size
        """Device memory used by the copies."""
        self._copies: list[torch.Tensor] = []

    def snapshot(self) -> None:
        current = self._read()
        copied = [(copy.shape, copy.device) for copy in self._copies]
        if copied != [(weight.shape, weight.device) for weight in current]:
            self._copies = [torch.empty_like(weight) for weight in current]
        torch._foreach_copy_(self._copies, current)

    def ratios(self) -> bytes | PendingRow:
        """Return the norm of the change over the norm before, for each tensor."""
        changed = list(torch._foreach_sub(self._read(), self._copies))
        by_device: dict[torch.device, list[int]] = {}
        for index, change in enumerate(changed):
            by_device.setdefault(change.device, []).append(index)
        builder = RowBuilder()
        for indices in by_device.values():
            both = [*(changed[index] for index in indices), *(self._copies[index] for index in indices)]
            builder.add_statistics(both, ("l2",))

        count = len(changed)

        def combine(parts: list[Vector]) -> Vector:
            ratios = np.empty(count)
            for indices, norms in zip(by_device.values(), parts, strict=True):
                change, norm = norms[: len(indices)], norms[len(indices) :]
                with np.errstate(all="ignore"):
                    ratios[indices] = np.where((norm == 0) & (change == 0), 0.0, change / norm)
            return ratios

        return builder.finish(combine)

    def _read(self) -> list[torch.Tensor]:
        return [self._sample(flatten(local(spec.parameter.detach()))) for spec in self._specs]

    def _sample(self, flat: torch.Tensor) -> torch.Tensor:
        return sample_of(flat) if self.is_sampled else flat


def _layout(tensors: Sequence[tuple[TensorInfo, tuple[str, ...]]]) -> SeriesLayout:
    columns = [(index, name) for index, (_, names) in enumerate(tensors) for name in names]
    return _intern(SeriesLayout(tuple(info for info, _ in tensors), tuple(columns)))


def _layout_by_statistic(groups: Sequence[tuple[tuple[str, ...], list[TensorInfo]]]) -> SeriesLayout:
    """Return the layout in the order of the kernels' results: tensors by group, columns by statistic."""
    tensors: list[TensorInfo] = []
    columns: list[tuple[int, str]] = []
    for statistics, infos in groups:
        first = len(tensors)
        tensors += infos
        columns += [(first + index, name) for name in statistics for index in range(len(infos))]
    return _intern(SeriesLayout(tuple(tensors), tuple(columns)))


_LAYOUTS: Final[dict[SeriesLayout, SeriesLayout]] = {}


def _intern(layout: SeriesLayout) -> SeriesLayout:
    """Return one object for equal layouts, so that their rows share a segment."""
    return _LAYOUTS.setdefault(layout, layout)
