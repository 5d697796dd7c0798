"""The MXNet adapter: trainings with Gluon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import mxnet as mx
from mxnet import autograd
from mxnet.gluon import Block, Trainer
from mxnet.ndarray import NDArray

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.kit.late_scalar import LateRow
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.kit.uncaptured import Uncaptured
from leadline.frameworks.labels import Labels
from leadline.frameworks.mxnet.arrays import arrays_in, read
from leadline.frameworks.mxnet.blocks import GluonHooks
from leadline.frameworks.mxnet.capture import MXNetSubject, is_updated_on_kvstore, parameter_of, trained_by
from leadline.frameworks.mxnet.clipping import NormClipping
from leadline.frameworks.mxnet.data_loading import DataLoading
from leadline.frameworks.mxnet.diagnose import CALLS, REASONS, coverage_gaps, inventory
from leadline.frameworks.mxnet.late_loss import MXNetScalar
from leadline.frameworks.mxnet.profiles import MXNetRecording, ScriptProfiling
from leadline.frameworks.mxnet.steps import GluonSteps, Losses
from leadline.frameworks.patches import Patches
from leadline.frameworks.pending import PendingNumbers
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Recording
from leadline.records.doctor_report import Inventory, UncapturedEntry
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, may_select_module_tensors
from leadline.records.profile_window import ProfileWindow

_AMP: Final = "mxnet.contrib.amp"
"""The module of mixed precision, which ``import mxnet`` does not import."""


class MXNetAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    Arrays are read as numpy arrays, which waits until MXNet has computed them. Losses of long steps
    are read one step later where nothing else is captured, so that MXNet runs ahead of the script.

    Args:
        note: Takes a line about something that cannot be captured.
    """

    name = "mxnet"
    family: Family = "network"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._patches, self._clipping, self._labels = Patches(), NormClipping(), Labels()
        self._callbacks: StepCallbacks | None = None
        self._blocks: GluonHooks | None = None
        self._steps: GluonSteps | None = None
        self._imports: ImportWatch | None = None
        self._profiling = ScriptProfiling()
        self._uncaptured, self._data_loading = Uncaptured(REASONS, note), DataLoading()

    def version(self) -> str:
        return str(mx.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (Trainer, Block, NDArray, MXNetScalar))

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return may_select_module_tensors(item)

    def steps_before(self, optimizer: Any) -> int | None:
        """Return the number of updates that the optimizer of a trainer has counted; its saved states contain it."""
        return int(optimizer._optimizer.num_update)

    def takes_over(self, optimizer: Any) -> bool:
        return self._steps is not None and self._steps.is_over

    def batch(self) -> list[NamedTensor]:
        given = self._steps.losses.given if self._steps is not None else None
        if given is None:
            return []
        name, inputs = given
        arrays = enumerate(arrays_in(inputs))
        return [NamedTensor(f"{name}_input_{at}", ("inputs", "layers"), read(array)) for at, array in arrays]

    def describe(self) -> TrainingDescription:
        return {}

    def inventory(self, optimizers: Sequence[Any]) -> Inventory:
        return inventory(optimizers, self._roots())

    def coverage_gaps(self, optimizers: Sequence[Any], backwards: int) -> list[UncapturedEntry]:
        return coverage_gaps(optimizers, self._roots(), self._uncaptured.gaps)

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        return MXNetRecording(self._profiling)

    def _roots(self) -> list[Any]:
        return sorted(self._blocks.roots, key=lambda root: str(root.name)) if self._blocks is not None else []

    def register(self, model: object) -> None:
        if not isinstance(model, Block):
            raise TypeError(f"a model is a gluon.Block, not {type(model).__name__}")
        if self._blocks is not None:
            self._blocks.roots.add(model)

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        self._callbacks = callbacks
        losses = Losses()
        self._blocks = GluonHooks(callbacks, guard, losses, self._note)
        steps = self._steps = GluonSteps(callbacks, losses, self._blocks.take_loss_facts)
        self._blocks.install()
        self._clipping.install(guard, callbacks)
        self._uncaptured.install(guard, CALLS)
        self._profiling.install(guard)
        self._data_loading.install(callbacks.timeline, guard)
        replace = self._patches.replace
        replace(NDArray, "backward", lambda original: _make_backward(original, steps, guard))
        replace(autograd, "backward", lambda original: _make_backward(original, steps, guard))
        replace(Trainer, "_allreduce_grads", lambda original: _make_allreduce(original, steps, guard))
        replace(Trainer, "_update", lambda original: _make_update(original, steps, guard))

        def on_amp(name: str, amp: ModuleType) -> None:
            for owner in (amp, amp.amp):
                replace(owner, "scale_loss", lambda original: _make_scale_loss(original, steps, guard))

        self._imports = ImportWatch([_AMP], guard.wrap(on_amp))
        self._imports.install()

    def uninstall(self) -> None:
        if self._imports is not None:
            self._imports.uninstall()
        self._patches.restore()
        self._clipping.uninstall()
        self._uncaptured.uninstall()
        self._profiling.uninstall()
        self._data_loading.uninstall()
        if self._blocks is not None:
            self._blocks.uninstall()
        self._blocks = self._callbacks = self._steps = None

    def subject(self, optimizer: Any) -> MXNetSubject:
        parameters = [parameter_of(optimizer, tensor) for tensor in trained_by(optimizer)]
        model = None
        if self._blocks is not None:
            self._blocks.add_trained(parameters)
            model = self._blocks.model_of(parameters)
        if self._callbacks is not None and parameters:
            self._callbacks.timeline.facts.setdefault("device", parameters[0].list_ctx()[0].device_type)
        kind = type(model if model is not None else optimizer).__name__
        return MXNetSubject(optimizer, kind, self._labels, self._clipping, self._note)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._blocks is not None:
            self._blocks.begin(items)

    def end_forward(self) -> CapturedArrays | None:
        return self._blocks.end() if self._blocks is not None else None

    def end_evaluation(self) -> None:
        if self._blocks is not None:
            self._blocks.end_evaluation()

    def set_mode(self, *, is_evaluation: bool) -> None:
        if self._blocks is not None:
            self._blocks.set_mode(is_evaluation=is_evaluation)

    def number(self, value: Any) -> object:
        return value if isinstance(value, MXNetScalar) else float(value)

    def row(self, values: Sequence[Any]) -> bytes | PendingNumbers:
        return LateRow(values)


def _make_backward(original: Callable[..., Any], steps: GluonSteps, guard: Guard) -> Callable[..., Any]:
    """Wrap ``backward`` of an array, or of autograd: both take the heads and then their gradients."""

    def backward(heads: Any, *args: Any, **kwargs: Any) -> Any:
        guard.run(steps.begin_backward)
        result = original(heads, *args, **kwargs)
        gradients = args[0] if args else kwargs.get("out_grad", kwargs.get("head_grads"))
        guard.run(steps.end_backward, heads, gradients is not None, sys._getframe(1))
        return result

    return backward


def _make_allreduce(original: Callable[..., Any], steps: GluonSteps, guard: Guard) -> Callable[..., Any]:
    def _allreduce_grads(trainer: Any) -> Any:
        if is_updated_on_kvstore(trainer):
            guard.run(steps.begin_update, trainer)
        try:
            return original(trainer)
        except BaseException:
            guard.run(steps.leave_update)
            raise

    return _allreduce_grads


def _make_update(original: Callable[..., Any], steps: GluonSteps, guard: Guard) -> Callable[..., Any]:
    def _update(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        guard.run(steps.begin_update, trainer)
        try:
            result = original(trainer, *args, **kwargs)
        except BaseException:
            guard.run(steps.leave_update)
            raise
        guard.run(steps.end_update, trainer)
        return result

    return _update


def _make_scale_loss(original: Callable[..., Any], steps: GluonSteps, guard: Guard) -> Callable[..., Any]:
    @contextmanager
    def scale_loss(loss: Any, trainer: Any) -> Iterator[Any]:
        with original(loss, trainer) as scaled:
            guard.run(steps.losses.add_scaled, scaled, loss)
            yield scaled

    return scale_loss
