"""Programs that capture one optimizer's gradients, weights and variables: planned once, run at many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from leadline.frameworks.kit.named_tensor import ON_UPDATE
from leadline.frameworks.pending import Pending
from leadline.frameworks.torch.capture.device_copy import PendingRow, RowBuilder, Vector, is_recording
from leadline.frameworks.torch.capture.raw_tensors import RawForm, unstorable_reason
from leadline.frameworks.torch.capture.tensor_specs import (
    SpecGroup,
    State,
    TensorSpec,
    are_plain,
    group_specs,
)
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.capture.weights_before import WeightsBefore
from leadline.frameworks.torch.kernels.array_statistics import named_vectors
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import unreadable_reason
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.tensors import CaptureForm, HostBuffer

_MAX_ROW_PLANS: Final = 64
"""Combinations of tensors that may exist: those of experts that receive no sample come and go."""


class ProgramSpecs:
    """Capture specs of one optimizer's tensors, grouped by statistics and device.

    Args:
        fixed: Specs of parameters and gradients.
        variables: Returns the specs of the optimizer's variables, which may appear and disappear.
        norm: How the norm of all gradients is recorded; None: not captured.
        state: Returns the optimizer state.
        scale: Returns the scale that the gradients still contain.
    """

    def __init__(
        self,
        fixed: Sequence[TensorSpec],
        variables: Callable[[], list[TensorSpec]],
        norm: TensorInfo | None,
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
        self._row_plans: dict[tuple[tuple[bool, ...], ...], _RowPlan] = {}
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._filled: tuple[RawForm, list[torch.Tensor]] | None = None
        self._is_recording = False
        updates = [(spec.info, (ON_UPDATE,)) for spec in specs.fixed if spec.has_update_ratio]
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
            self._row_plans.clear()
        read = self._read_groups()
        if any(len(set(map(torch.Tensor.get_device, tensors))) > 1 for tensors, _ in read):
            self._row_plans.clear()
            self._specs.regroup()  # a tensor has moved to another device
            read = self._read_groups()
        present = tuple(presence for _, presence in read)
        plan = self._row_plans.get(present)
        if plan is None:
            if len(self._row_plans) >= _MAX_ROW_PLANS:
                self._row_plans.clear()
            plan = self._row_plans[present] = _RowPlan(self._specs, present)
        if not plan.groups:
            return None
        builder = RowBuilder()
        used = [tensors for tensors, _ in read if tensors]
        for group, tensors in zip(plan.groups, used, strict=True):
            builder.add_statistics(tensors, group.statistics, PreviousValues(self._deltas, group.names))
        # combining happens later and must not hold tensors of the training
        norms = [group.norms(tensors) for group, tensors in zip(plan.groups, used, strict=True)]
        return plan.layout, builder.finish(lambda parts: _combine_parts(plan, norms, parts))

    def _read_groups(self) -> list[tuple[list[torch.Tensor], tuple[bool, ...]]]:
        """Return for each group the tensors that exist in this step, and of each spec whether its tensor does."""
        scale, state = self._specs.scale(), self._specs.state()
        return [self._read_group(group, scale, state) for group in self._specs.groups]

    def _read_group(
        self, group: SpecGroup, scale: torch.Tensor | None, state: State
    ) -> tuple[list[torch.Tensor], tuple[bool, ...]]:
        if group.is_plain and scale is None:
            plain = group.plain()
            if are_plain(plain):
                return plain, (True,) * len(plain)
        tensors = [self._readable(spec, scale, state) for spec in group.specs]
        return [tensor for tensor in tensors if tensor is not None], tuple(tensor is not None for tensor in tensors)

    def _readable(self, spec: TensorSpec, scale: torch.Tensor | None, state: State) -> torch.Tensor | None:
        tensor = spec.read(scale, state)
        if tensor is None:
            return None
        reason = unreadable_reason(tensor)
        if reason is not None:
            self._warn(f"{spec.info.name} is not captured: {reason}")
            return None
        return tensor


class _GroupPlan:
    """A group whose tensors exist in part or in whole, and the use of its numbers in the row."""

    def __init__(self, group: SpecGroup, presence: Sequence[bool], *, has_norm: bool) -> None:
        self.statistics, self.is_requested = group.statistics, group.is_requested
        specs = [spec for spec, is_present in zip(group.specs, presence, strict=True) if is_present]
        self.infos = [spec.info for spec in specs]
        self.names = [spec.info.name for spec in specs]
        self.gradients = [at for at, spec in enumerate(specs) if spec.is_gradient]
        is_norm_part = has_norm and bool(self.gradients) and "l2" in group.statistics
        self._first_norm = group.statistics.index("l2") * len(specs) if is_norm_part else None
        # of plain tensors the same in every step
        self._of_plain = self._norms([spec.parameter for spec in specs]) if is_norm_part and group.is_plain else None

    def norms(self, tensors: Sequence[torch.Tensor]) -> list[int] | None:
        """Return the indices of the gradients' l2 among the numbers of the group; None: it has no gradient.

        Gradients without elements in this process's shard are left out.
        """
        if self._first_norm is None:
            return None
        return self._norms(tensors) if self._of_plain is None else self._of_plain

    def _norms(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        return [(self._first_norm or 0) + at for at in self.gradients if tensors[at].numel()]


class _RowPlan:
    """The groups and the layout of a row, for the tensors that exist in a step."""

    def __init__(self, specs: ProgramSpecs, presence: Sequence[Sequence[bool]]) -> None:
        plans = [
            _GroupPlan(group, present, has_norm=specs.norm is not None)
            for group, present in zip(specs.groups, presence, strict=True)
        ]
        self.groups = [plan for plan in plans if plan.names]
        columns = [(plan.statistics, plan.infos) for plan in self.groups if plan.is_requested]
        if specs.norm is not None and any(plan.gradients for plan in self.groups):
            columns.append((("value",), [specs.norm]))
        self.layout = _layout_by_statistic(columns)


def _combine_parts(plan: _RowPlan, norms: Sequence[list[int] | None], parts: Sequence[Vector]) -> Vector:
    """Build the row: the requested numbers of the groups, and the norm of all gradients from their l2."""
    row = [part for group, part in zip(plan.groups, parts, strict=True) if group.is_requested]
    l2 = [part[places] for places, part in zip(norms, parts, strict=True) if places is not None]
    if l2:
        with np.errstate(all="ignore"):
            row.append(np.sqrt(np.square(np.concatenate(l2)).sum(keepdims=True)))
    return np.concatenate(row)


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
