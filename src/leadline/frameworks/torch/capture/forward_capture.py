"""Capture of one forward pass: its tensors, their statistics and raw copies, and the accuracy of its losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

from leadline.frameworks.pending import Pending
from leadline.frameworks.torch.capture.device_copy import (
    DeviceScalar,
    PendingRow,
    copier_of,
    is_recording,
    number_of,
)
from leadline.frameworks.torch.capture.forward_row import ForwardRow, untracked_in_full_precision
from leadline.frameworks.torch.capture.raw_tensors import RawForm, unstorable_reason
from leadline.frameworks.torch.capture.requests import KernelRequest, Requests
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.kernels.array_statistics import confusion, named_vectors
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason
from leadline.frameworks.torch.naming.loss_calls import correct_and_total
from leadline.records.names import ACCURACY
from leadline.records.plan import CaptureItem, may_select_module_tensors
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.layout import vector_name
from leadline.store.tensors import CaptureForm, HostBuffer

_DELTA_BYTES: Final = 16 << 20
"""Device memory for the previous values of module tensors; beyond it samples are compared."""
_MAX_CALLS: Final = 1024
"""Tensors of one module or function in one step; a module in a loop has further ones for each call."""
_MAX_NAMES: Final = 1 << 14
"""Tensors of one step."""
_RAW_BYTES: Final = 512 << 20
"""Copies of whole tensors in one step: the most memory that there is for writing them."""
_MAX_TARGETS: Final = 1 << 16
"""Names that are remembered from one capture to the next; a module in a loop has a new one for each call."""

_OF_ANY_MODULE: Final = frozenset({None, "all", "layers"})
"""Collections by which an item may select a tensor of any module or function."""

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
        self.has_items = False
        """Whether any tensor may be captured; otherwise a pass is watched for its losses and its accuracy only."""
        self._deltas = Deltas(_DELTA_BYTES, warn)
        self._items: tuple[CaptureItem, ...] = ()
        self._selected: frozenset[str | None] = frozenset()
        """The collections that the items name."""
        self._requests = Requests((), may_select_module_tensors)
        self._targets: dict[tuple[str, tuple[str, ...]], _Target] = {}
        self._counts: dict[str, int] = {}
        self._names = self._raw_bytes = 0
        """How many tensors were named in the step, and the size of the copies."""
        self._row = ForwardRow(self._deltas)
        self._raw: list[tuple[str, torch.Tensor]] = []
        self._forms: dict[tuple[Any, ...], RawForm] = {}

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Discard all captured tensors, and start capturing these items."""
        self.extend(items)
        self.own_ns, self.mode = 0, mode
        self.begun_ns = 0
        self._counts, self._raw = {}, []
        self._names = self._raw_bytes = 0
        self._row.begin(mode)

    def extend(self, items: Sequence[CaptureItem]) -> None:
        """Capture other items from now on, beside what was captured."""
        if tuple(items) != self._items or len(self._targets) > _MAX_TARGETS:
            self._items, self._targets = tuple(items), {}
            self._requests = Requests(self._items, may_select_module_tensors)
            self._selected = frozenset(item.collection for item in self._items if may_select_module_tensors(item))
            self.has_items = bool(self._selected)

    def selects_any(self, collections: Set[str]) -> bool:
        """Return whether an item may select inputs or outputs of inner modules or functions.

        Args:
            collections: Those of the inner modules and functions, except ``layers``.
        """
        return not self._selected.isdisjoint(_OF_ANY_MODULE) or not self._selected.isdisjoint(collections)

    def next_name(self, stem: str) -> str | None:
        """Return the next name for a stem: for ``relu_output`` first ``relu_output_0``, then ``relu_output_1``.

        None: it has as many as a step may have.
        """
        index = self._counts.get(stem, -1) + 1
        if index >= _MAX_CALLS or self._names >= _MAX_NAMES:
            if self.has_items:
                self._warn(
                    f"tensors beyond {_MAX_CALLS:,} of one module or function, and beyond {_MAX_NAMES:,} in all, "
                    "are not captured in one step"
                )
            return None
        self._counts[stem] = index
        self._names += 1
        return f"{stem}_{index}"

    def add(self, name: str, collections: tuple[str, ...], tensor: torch.Tensor) -> None:
        """Capture a tensor if an item selects it; it is read at once, because it may be changed in place later."""
        if not self.has_items:
            return
        target = self._target(name, collections)
        request = target.request
        if not (request.numbers or request.arrays or request.is_raw):
            return
        values = local(tensor.detach())
        reason = unreadable_reason(values)
        if reason is not None:
            self._warn(f"{name} is not captured: {reason}")
            return
        copier = copier_of(values.device)
        if copier is not None and copier.is_recording():
            return
        if request.numbers:
            info = target.info(name, collections, tensor)
            self._row.add(info, request.numbers, values, is_on_host=copier is None)
        if request.arrays or request.is_raw:
            self._add_raw(name, request, values)

    def _add_raw(self, name: str, request: KernelRequest, values: torch.Tensor) -> None:
        with untracked_in_full_precision():
            self._raw += named_vectors([name], [values], request.arrays)
            if request.is_raw:
                self._add_copy(name, values)

    def _add_copy(self, name: str, values: torch.Tensor) -> None:
        reason = unstorable_reason(values)
        size = values.numel() * values.element_size()
        if reason is not None:
            self._warn(f"{name} is not stored: {reason}")
        elif self._raw_bytes + size > _RAW_BYTES:
            self._warn(f"inputs and outputs beyond {_RAW_BYTES >> 20} MB of whole tensors in one step are not stored")
        else:
            self._raw_bytes += size
            self._raw.append((name, values.clone()))

    def add_confusion(
        self, name: str, collections: tuple[str, ...], labels: torch.Tensor, predictions: torch.Tensor
    ) -> None:
        """Count the confusion matrix of a classification loss call of at most ``MAX_CLASSES``, if an item selects it.

        Args:
            name, collections: Those of the labels, as passed to ``add``.
        """
        kind = collections[-1].removesuffix("_input")
        if "confusion" not in self._target(name, collections).request.statistics or kind not in _CLASSIFICATIONS:
            return
        labels, predictions = local(labels.detach()), local(predictions.detach())
        if unreadable_reason(labels) or unreadable_reason(predictions) or is_recording(predictions.device):
            return
        threshold = _CLASSIFICATIONS[kind]
        if threshold is not None:  # each element is a decision between two classes
            labels, predictions = labels.reshape(-1), predictions.reshape(-1)
        if not _are_matching(labels, predictions):
            return
        with untracked_in_full_precision():
            counts = confusion(labels, predictions, threshold=threshold or 0.0)
        if counts is not None:
            self._raw.append((vector_name(name, "confusion"), counts))

    def row(self) -> tuple[SeriesLayout, bytes | PendingRow] | None:
        """Return the statistics captured since ``begin``."""
        return self._row.finish()

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

    def _target(self, name: str, collections: tuple[str, ...]) -> _Target:
        key = (name, collections)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _Target(self._requests.of(name, collections))
        return target


class _Target:
    """The request of a tensor, and its description."""

    __slots__ = ("_form", "_info", "request")

    def __init__(self, request: KernelRequest) -> None:
        self.request = request
        self._form: tuple[torch.Size, torch.dtype] | None = None
        self._info: TensorInfo | None = None

    def info(self, name: str, collections: tuple[str, ...], tensor: torch.Tensor) -> TensorInfo:
        form = (tensor.shape, tensor.dtype)
        if self._info is None or form != self._form:
            self._form, collections = form, (*collections, *self.request.custom)
            self._info = TensorInfo(name, collections, tuple(form[0]), str(form[1]).removeprefix("torch."))
        return self._info


def _are_matching(labels: torch.Tensor, predictions: torch.Tensor) -> bool:
    """Whether there is one label per sample, or a probability for each class."""
    samples = (*predictions.shape[:1], *predictions.shape[2:]) if predictions.dim() > 1 else ()
    return tuple(labels.shape) in (tuple(predictions.shape), samples) and predictions.numel() > 0


# --- accuracy of the classification losses called in the pass ------------------------------------------------


class AccuracyCounts:
    """Numbers of correct and of all predictions, by the name of the loss call."""

    def __init__(self) -> None:
        self._is_captured = False
        self._counts: dict[str, tuple[DeviceScalar | float, DeviceScalar | float]] = {}

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Start a pass; count only if one of its capture items selects the accuracy."""
        self._counts = {}
        self._is_captured = any(item.selects(ACCURACY, frozenset({"metrics"})) for item in items)

    def clear(self) -> None:
        """Discard the counts of the current pass."""
        self._counts = {}

    def add(self, kind: str, stem: str, values: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Count one loss call.

        Args:
            kind: The loss function, such as ``cross_entropy``.
            stem: The name of the loss call.
            values: The arguments of the call, predictions and labels first.
            options: The options of the call, such as ``ignore_index``.
        """
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if not self._is_captured or len(tensors) < 2 or tensors[0].is_meta:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            counts = correct_and_total(kind, tensors[0].detach(), tensors[1].detach(), options)
        if counts is not None:
            right, total = self._counts.get(stem, (0.0, 0.0))
            self._counts[stem] = right + (number_of(counts[0]) or 0.0), total + (number_of(counts[1]) or 0.0)

    def take(self) -> dict[str, DeviceScalar | float]:
        """Return the share of correct predictions since the pass began, for each loss call, and clear the counts."""
        counts, self._counts = self._counts, {}
        accuracy: dict[str, DeviceScalar | float] = {}
        for right, total in counts.values():
            if total:
                name = f"{ACCURACY}_{len(accuracy)}" if accuracy else ACCURACY
                accuracy[name] = right / total
        return accuracy


# --- tensors in the inputs and outputs of modules and functions ----------------------------------------------

_MAX_DEPTH: Final = 4
"""Depth to which nested containers are searched."""

LOSS_FUNCTIONS: Final = {
    "crossentropyloss": "cross_entropy",
    "nllloss": "nll_loss",
    "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits",
}
"""The functions that loss modules of these kinds call."""


def module_kind(module: torch.nn.Module) -> str:
    """Return the lower-case class name of a module: ``relu``, ``tanh``, ``batchnorm2d`` …"""
    return type(module).__name__.lower()


def loss_collections(base: tuple[str, ...], side: str) -> Callable[[int], tuple[str, ...]]:
    """Return the collections of a loss call's inputs or outputs, by position."""
    if side == "output":
        return lambda index: base
    return lambda index: ("predictions", *base) if index == 0 else ("labels", *base) if index == 1 else base


def module_collections(
    module: torch.nn.Module, kind: str, side: str, *, is_outermost: bool
) -> Callable[[int], tuple[str, ...]]:
    """Return the collections of a module's inputs or outputs, by position."""
    base = ("layers", f"{kind}_{side}")
    if isinstance(module, torch.nn.modules.loss._Loss):
        return loss_collections(base, side)
    return lambda index: (f"{side}s", *base) if is_outermost else base


def keyword_tensors(values: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among keyword arguments."""
    return [value for value in values.values() if isinstance(value, torch.Tensor)]


def tensors_in(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors in a module's inputs or outputs, including those in nested containers and dataclasses."""
    if isinstance(values, torch.Tensor):
        yield values
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(values, (tuple, list)):  # ahead of mappings, whose check is ten times as slow
        for value in values:
            yield from tensors_in(value, depth + 1)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from tensors_in(value, depth + 1)
    elif is_dataclass(values) and not isinstance(values, type):
        for field in fields(values):
            yield from tensors_in(getattr(values, field.name), depth + 1)
