"""Statistics and raw copies of the tensors captured in a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.device_copy import PendingRow, RowBuilder, is_recording, untracked
from leadline.frameworks.torch.capture.raw_tensors import RawForm, unstorable_reason
from leadline.frameworks.torch.kernels.array_statistics import confusion, named_vectors, split_arrays
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.records.plan import CaptureItem, custom_collections, may_select_module_tensors
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.layout import vector_name
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.pending import Pending

_DELTA_BYTES: Final = 16 << 20
"""Device memory for the previous values of module tensors; beyond it samples are compared."""

_CLASSIFICATIONS: Final[dict[str, float | None]] = {
    "crossentropyloss": None,
    "crossentropy": None,
    "nllloss": None,
    "bceloss": 0.5,
    "binarycrossentropy": 0.5,
    "bcewithlogitsloss": 0.0,
    "binarycrossentropywithlogits": 0.0,
}
"""Loss calls whose labels are classes; for two classes the threshold above which a prediction means the second."""


class CapturedTensors:
    """See ``leadline.frameworks.adapter.Forward``; filled during the forward pass and emptied by the recorder."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """
        Args:
            warn: Called with a message about something that cannot be captured.
        """
        self._warn = warn
        self.own_ns = self.begun_ns = 0
        self.mode = "train"
        self.accuracy: dict[str, Any] = {}
        self._deltas = Deltas(_DELTA_BYTES, warn)
        self._items: Sequence[CaptureItem] = ()
        self._requests: dict[tuple[str, tuple[str, ...]], tuple[frozenset[str], bool]] = {}
        self._counts: dict[str, int] = {}
        self._captured: list[tuple[TensorInfo, tuple[str, ...]]] = []
        self._row_builder = RowBuilder()
        self._raw: list[tuple[str, torch.Tensor]] = []
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._layouts: dict[SeriesLayout, SeriesLayout] = {}

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Discard all captured tensors, and start capturing these items."""
        self._items, self._requests, self.own_ns, self.mode = items, {}, 0, mode
        self.begun_ns = 0
        self._counts, self._captured, self._raw, self._row_builder = {}, [], [], RowBuilder()

    def next_name(self, stem: str) -> str:
        """Return the next name for a stem: for ``relu_output`` first ``relu_output_0``, then ``relu_output_1``."""
        index = self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{index}"

    def add(self, name: str, collections: tuple[str, ...], tensor: torch.Tensor) -> None:
        """Capture a tensor if an item selects it; it is read at once, because it may be changed in place later."""
        statistics, is_raw = self._request(name, collections)
        if not statistics and not is_raw:
            return
        values = local(tensor.detach())
        reason = unreadable_reason(values)
        if reason is not None:
            self._warn(f"{name} is not captured: {reason}")
            return
        if is_recording(values.device):
            return
        numbers, arrays = split_arrays(statistics)
        if numbers:
            previous = PreviousValues(self._deltas, [f"{self.mode}/{name}"])
            self._row_builder.add_statistics([values], numbers, previous)
            collections = (*collections, *custom_collections(self._items, name, collections))
            info = TensorInfo(name, collections, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            self._captured.append((info, numbers))
        self._raw += named_vectors([name], [values], arrays)
        if is_raw:
            reason = unstorable_reason(values)
            if reason is None:
                self._raw.append((name, values.clone()))
            else:
                self._warn(f"{name} is not stored: {reason}")

    def add_confusion(
        self, name: str, collections: tuple[str, ...], labels: torch.Tensor, predictions: torch.Tensor
    ) -> None:
        """Count the confusion matrix of a classification loss call, if an item selects it.

        Args:
            name, collections: Those of the labels, as passed to ``add``.
        """
        kind = collections[-1].removesuffix("_input")
        if "confusion" not in self._request(name, collections)[0] or kind not in _CLASSIFICATIONS:
            return
        labels, predictions = local(labels.detach()), local(predictions.detach())
        if unreadable_reason(labels) or unreadable_reason(predictions) or is_recording(predictions.device):
            return
        threshold = _CLASSIFICATIONS[kind]
        if threshold is not None:  # each element is a decision between two classes
            labels, predictions = labels.reshape(-1), predictions.reshape(-1)
        if not _are_matching(labels, predictions):
            return
        counts = confusion(labels, predictions, threshold=threshold or 0.0)
        if counts is None:
            self._warn(f"the confusion matrix of {name} is not captured: too many classes ({predictions.shape[1]:,})")
        else:
            self._raw.append((vector_name(name, "confusion"), counts))

    def row(self) -> tuple[SeriesLayout, bytes | PendingRow] | None:
        """Return the statistics captured since ``begin``."""
        if not self._captured:
            return None
        tensors = tuple(info for info, _ in self._captured)
        columns = [(index, name) for index, (_, names) in enumerate(self._captured) for name in names]
        layout, builder = SeriesLayout(tensors, tuple(columns)), self._row_builder
        self._captured, self._row_builder = [], RowBuilder()
        return self._layouts.setdefault(layout, layout), builder.finish()

    def raw_form(self) -> CaptureForm | None:
        """Return the form of the captured raw tensors."""
        if not self._raw:
            return None
        key = self._key()
        if key not in self._forms:
            if len(self._forms) > 16:
                self._forms.clear()  # shapes that may never recur
            self._forms[key] = RawForm(self._raw, self.mode)
        return self._forms[key].form

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; return the pending copy, None if it is done.

        Args:
            buffer: None: no buffer is free, and the tensors are discarded.
        """
        key, raw, self._raw = self._key(), self._raw, []
        if buffer is None:
            return None
        with untracked():
            return self._forms[key].fill(buffer, [tensor for _, tensor in raw])

    def _key(self) -> tuple[Any, ...]:
        return self.mode, *((name, tensor.shape, tensor.dtype) for name, tensor in self._raw)

    def _request(self, name: str, collections: tuple[str, ...]) -> tuple[frozenset[str], bool]:
        key = (name, collections)
        if key not in self._requests:
            chosen = [item for item in self._items if _selects(item, name, collections)]
            statistics = frozenset(name for item in chosen for name in item.statistics) - {"update_ratio"}
            self._requests[key] = (statistics, any(item.raw for item in chosen))
        return self._requests[key]


def _are_matching(labels: torch.Tensor, predictions: torch.Tensor) -> bool:
    """Whether there is one label per sample, or a probability for each class."""
    samples = (*predictions.shape[:1], *predictions.shape[2:]) if predictions.dim() > 1 else ()
    return tuple(labels.shape) in (tuple(predictions.shape), samples) and predictions.numel() > 0


def _selects(item: CaptureItem, name: str, collections: tuple[str, ...]) -> bool:
    return may_select_module_tensors(item) and item.selects(name, frozenset(collections))
