"""What a forward pass left behind: statistics and raw copies of the tensors that were wished for, under their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.device_copy import DeviceCopies, LateRow, is_recording, quietly
from leadline.frameworks.torch.capture.raw_tensors import RawForm, why_not_raw
from leadline.frameworks.torch.kernels.array_statistics import confusion, named_vectors, split
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import local, why_unreadable
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.records.plan import CaptureItem, custom_collections, is_of_modules
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.layout import vector_name
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.pending import Pending

_CHANGE_BYTES: Final = 16 << 20
"""Device memory for what module tensors were at their previous capture; beyond it samples are compared."""

_CLASSIFICATIONS: Final[dict[str, float | None]] = {
    "crossentropyloss": None,
    "crossentropy": None,
    "nllloss": None,
    "bceloss": 0.5,
    "binarycrossentropy": 0.5,
    "bcewithlogitsloss": 0.0,
    "binarycrossentropywithlogits": 0.0,
}
"""Loss calls whose labels are classes; of those between two, above which prediction the second is meant."""


class CapturedTensors:
    """See ``leadline.frameworks.adapter.Forward``: filled tensor by tensor within a pass, emptied by the recorder."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """
        Args:
            tell: Takes a line about something that cannot be captured.
        """
        self._tell = tell
        self.own_ns = self.begun_ns = 0
        self.mode = "train"
        self.accuracy: dict[str, Any] = {}
        self._changes = Deltas(_CHANGE_BYTES, tell)
        self._items: Sequence[CaptureItem] = ()
        self._wished: dict[tuple[str, tuple[str, ...]], tuple[frozenset[str], bool]] = {}
        self._counts: dict[str, int] = {}
        self._found: list[tuple[TensorInfo, tuple[str, ...]]] = []
        self._readout = DeviceCopies()
        self._raw: list[tuple[str, torch.Tensor]] = []
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._layouts: dict[SeriesLayout, SeriesLayout] = {}

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Forget what was captured before; from here on these are the wishes."""
        self._items, self._wished, self.own_ns, self.mode = items, {}, 0, mode
        self.begun_ns = 0
        self._counts, self._found, self._raw, self._readout = {}, [], [], DeviceCopies()

    def name(self, stem: str) -> str:
        """The next name of a stem within the pass: ``relu_output`` gives ``relu_output_0``, then ``relu_output_1``."""
        index = self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{index}"

    def keep(self, name: str, collections: tuple[str, ...], tensor: torch.Tensor) -> None:
        """Read a tensor at once, if somebody wishes for it: it may be changed in place a moment later."""
        statistics, is_raw = self._wish(name, collections)
        if not statistics and not is_raw:
            return
        own = local(tensor.detach())
        why = why_unreadable(own)
        if why is not None:
            self._tell(f"{name} is not read: {why}")
            return
        if is_recording(own.device):
            return
        numbers, arrays = split(statistics)
        if numbers:
            recall = PreviousValues(self._changes, [f"{self.mode}/{name}"])
            self._readout.statistics([own], numbers, recall)
            collections = (*collections, *custom_collections(self._items, name, collections))
            info = TensorInfo(name, collections, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            self._found.append((info, numbers))
        self._raw += named_vectors([name], [own], arrays)
        if is_raw:
            why = why_not_raw(own)
            if why is None:
                self._raw.append((name, own.clone()))
            else:
                self._tell(f"{name} is not stored: {why}")

    def keep_confusion(
        self, name: str, collections: tuple[str, ...], labels: torch.Tensor, predictions: torch.Tensor
    ) -> None:
        """Count what the labels of a classification's loss call were predicted as, if somebody wishes for it.

        Args:
            name, collections: Those of the labels, which ``keep`` has been given.
        """
        kind = collections[-1].removesuffix("_input")
        if "confusion" not in self._wish(name, collections)[0] or kind not in _CLASSIFICATIONS:
            return
        own, given = local(labels.detach()), local(predictions.detach())
        if why_unreadable(own) or why_unreadable(given) or is_recording(given.device):
            return
        threshold = _CLASSIFICATIONS[kind]
        if threshold is not None:
            own, given = own.reshape(-1), given.reshape(-1)  # each element is a decision between two classes
        if not _are_pairs(own, given):
            return
        counts = confusion(own, given, threshold=threshold or 0.0)
        if counts is None:
            self._tell(f"the confusion of {name} is not counted: {given.shape[1]:,} classes are too many")
        else:
            self._raw.append((vector_name(name, "confusion"), counts))

    def row(self) -> tuple[SeriesLayout, bytes | LateRow] | None:
        """The statistics of what was captured since ``begin``."""
        if not self._found:
            return None
        tensors = tuple(info for info, _ in self._found)
        columns = [(index, name) for index, (_, names) in enumerate(self._found) for name in names]
        found, readout = SeriesLayout(tensors, tuple(columns)), self._readout
        self._found, self._readout = [], DeviceCopies()
        return self._layouts.setdefault(found, found), readout.close()

    def raw_form(self) -> CaptureForm | None:
        """The form of the raw tensors that were captured."""
        if not self._raw:
            return None
        key = self._key()
        if key not in self._forms:
            if len(self._forms) > 16:
                self._forms.clear()  # shapes that never come back
            self._forms[key] = RawForm(self._raw, self.mode)
        return self._forms[key].form

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; what tells when that is done, None: it is.

        Args:
            buffer: None: there is none, and they are forgotten.
        """
        key, raw, self._raw = self._key(), self._raw, []
        if buffer is None:
            return None
        with quietly():
            return self._forms[key].fill(buffer, [tensor for _, tensor in raw])

    def _key(self) -> tuple[Any, ...]:
        return self.mode, *((name, tensor.shape, tensor.dtype) for name, tensor in self._raw)

    def _wish(self, name: str, collections: tuple[str, ...]) -> tuple[frozenset[str], bool]:
        key = (name, collections)
        if key not in self._wished:
            chosen = [item for item in self._items if _selects(item, name, collections)]
            statistics = frozenset(each for item in chosen for each in item.statistics) - {"update_ratio"}
            self._wished[key] = (statistics, any(item.raw for item in chosen))
        return self._wished[key]


def _are_pairs(labels: torch.Tensor, predictions: torch.Tensor) -> bool:
    """Whether there is one label a sample, or a probability of each class."""
    samples = (*predictions.shape[:1], *predictions.shape[2:]) if predictions.dim() > 1 else ()
    return tuple(labels.shape) in (tuple(predictions.shape), samples) and predictions.numel() > 0


def _selects(item: CaptureItem, name: str, collections: tuple[str, ...]) -> bool:
    return is_of_modules(item) and item.selects(name, frozenset(collections))
