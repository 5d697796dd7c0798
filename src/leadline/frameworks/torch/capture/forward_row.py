"""The row of a forward pass: statistics of its tensors, of small ones on the host in one pass at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch

from leadline.frameworks.torch.capture.device_copy import PendingRow, RowBuilder
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.frameworks.torch.kernels.stacks import STACKED_ELEMENTS
from leadline.records.series import SeriesLayout, TensorInfo

_COPIED_ELEMENTS: Final = 1 << 18
"""Copies of small tensors with this many elements in all are computed at once: at most 2 MB of float64."""
_MAX_LAYOUTS: Final = 64


class ForwardRow:
    """Collects the statistics of tensors that may change as soon as they have been added.

    Small tensors on the host are copied and computed together; others are computed when they are added.
    """

    def __init__(self, deltas: Deltas) -> None:
        """
        Args:
            deltas: Values of tensors at their previous capture.
        """
        self._deltas = deltas
        self._layouts: dict[tuple[tuple[tuple[str, ...], tuple[TensorInfo, ...]], ...], SeriesLayout] = {}
        self.begin("train")

    def begin(self, mode: str) -> None:
        """Discard everything, and begin a row of a mode."""
        self._mode = mode
        self._builder = RowBuilder()
        self._parts: list[tuple[tuple[str, ...], tuple[TensorInfo, ...]]] = []
        self._order: list[TensorInfo] = []
        self._copies: dict[tuple[str, ...], tuple[list[TensorInfo], list[torch.Tensor]]] = {}
        self._copied_elements = 0

    def add(self, info: TensorInfo, statistics: tuple[str, ...], values: torch.Tensor, *, is_on_host: bool) -> None:
        """Add statistics of a readable tensor without gradients.

        Args:
            is_on_host: Whether its numbers are directly accessible, so that they need no asynchronous copy.
        """
        self._order.append(info)
        size = values.numel()
        if not is_on_host or size > STACKED_ELEMENTS or values.layout is not torch.strided:
            self._compute(statistics, [info], [values])
            return
        infos, copies = self._copies.setdefault(statistics, ([], []))
        infos.append(info)
        copies.append(values.clone())
        self._copied_elements += size
        if self._copied_elements > _COPIED_ELEMENTS:
            self._compute_copies()

    def finish(self) -> tuple[SeriesLayout, bytes | PendingRow] | None:
        """Return the row, and begin another one of the same mode; None: nothing was added."""
        self._compute_copies()
        if not self._parts:
            return None
        layout, builder = self._layout(), self._builder
        self.begin(self._mode)
        return layout, builder.finish()

    def _compute_copies(self) -> None:
        copies, self._copies, self._copied_elements = self._copies, {}, 0
        for statistics, (infos, tensors) in copies.items():
            self._compute(statistics, infos, tensors)

    def _compute(
        self, statistics: tuple[str, ...], infos: Sequence[TensorInfo], tensors: Sequence[torch.Tensor]
    ) -> None:
        previous = PreviousValues(self._deltas, [f"{self._mode}/{info.name}" for info in infos])
        with untracked_in_full_precision():
            self._builder.add_statistics(tensors, statistics, previous)
        self._parts.append((statistics, tuple(infos)))

    def _layout(self) -> SeriesLayout:
        """Return the layout with the tensors in the order in which they were added, the columns in that of the parts.

        Equal rows have one layout, so that they share a segment.
        """
        key = tuple(self._parts)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()  # shapes that may never recur
            places = {info.name: place for place, info in enumerate(self._order)}
            columns = [(places[info.name], name) for statistics, infos in key for name in statistics for info in infos]
            layout = self._layouts[key] = SeriesLayout(tuple(self._order), tuple(columns))
        return layout


@contextmanager
def untracked_in_full_precision() -> Iterator[None]:
    """Disable autograd, function modes and autocasting, for computations within a forward pass."""
    with untracked(), torch.autocast("cpu", enabled=False):
        yield
