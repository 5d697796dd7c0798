"""Capture of one trainer: its parameters, their gradients and the state of its optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.array_capture import CapturedArrays, ColumnSet
from leadline.frameworks.kit.gradient_norms import NORM, norm_info, wants_norm
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, may_select, parameter_collections
from leadline.frameworks.labels import Labels
from leadline.frameworks.mxnet.arrays import Array, arrays_in, read
from leadline.frameworks.mxnet.clipping import NormClipping
from leadline.frameworks.mxnet.learning_rate import learning_rate_of
from leadline.frameworks.pending import Pending
from leadline.records.names import OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.one_pass import l2_of, update_ratio
from leadline.store.tensors import CaptureForm, HostBuffer

_SETTINGS: Final = ("wd", "momentum", "beta1", "beta2", "gamma1", "gamma2", "rho", "epsilon")
_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "SGD": ("momentum",),
    "NAG": ("momentum",),
    "LARS": ("momentum",),
    "Signum": ("momentum",),
    "SGLD": (),
    "DCASGD": ("momentum", "previous_weight"),
    "Adam": ("mean", "variance"),
    "LAMB": ("mean", "variance"),
    "Adamax": ("mean", "variance"),
    "Nadam": ("mean", "variance"),
    "FTML": ("d", "v", "z"),
    "AdaGrad": ("history",),
    "AdaDelta": ("accumulated_gradient", "accumulated_delta"),
    "RMSProp": ("n", "g", "delta"),
    "Ftrl": ("z", "n"),
}
"""The names of the arrays that an optimizer keeps for each parameter, in their order; of others, their numbers."""


def trained_by(trainer: Any) -> list[NamedTensor]:
    """Return the parameters that a trainer updates, with their places in it.

    A parameter itself refers to the trainer, and would keep it alive. Left out are those of which no shape is known
    yet, and sparse weights, of which the store holds the rows.
    """
    return [
        NamedTensor(parameter.name, parameter_collections(parameter.name), place)
        for place, parameter in enumerate(trainer._params)
        if parameter.grad_req != "null" and parameter._data is not None and parameter._stype == "default"
    ]


def parameter_of(trainer: Any, tensor: NamedTensor) -> Any:
    """Return a parameter that a trainer updates."""
    return trainer._params[tensor.source]


def is_updated_on_kvstore(trainer: Any) -> bool:
    """Return whether a trainer's store updates the parameters, in place of the trainer."""
    return bool(trainer._kvstore is not None and trainer._update_on_kvstore)


class MXNetSubject:
    """See ``leadline.frameworks.adapter.Subject``.

    Args:
        model: The class of the block that the trainer's parameters belong to.
        labels: The labels of all trainers.
        clipping: The norms before clipping.
        note: Takes a line about something that cannot be captured.
    """

    def __init__(
        self, trainer: Any, model: str, labels: Labels, clipping: NormClipping, note: Callable[[str], None]
    ) -> None:
        self._trainer = weakref.ref(trainer)
        self._trained = trained_by(trainer)
        self.model, self.optimizer = model, type(trainer._optimizer).__name__
        self.parameters = len(self._trained)
        self.elements = self.trainable = 0
        names = frozenset(tensor.name for tensor in self._trained)
        self.label, self.prefix = labels.of(trainer, self.optimizer, names)
        self._clipping, self._note = clipping, note

    def is_current(self) -> bool:
        trainer = self._trainer()
        if trainer is None:
            return False
        return trained_by(trainer) == self._trained

    def hyperparameters(self) -> Mapping[str, object]:
        trainer = self._trainer()
        if trainer is None:
            return {}
        optimizer = trainer._optimizer
        settings: dict[str, Any] = {}
        rate = learning_rate_of(optimizer)
        if rate is not None:
            settings["learning_rate"] = rate
        settings |= {name: value for name in _SETTINGS if _is_number(value := getattr(optimizer, name, None))}
        return {f"{self.label}/{name}": float(value) for name, value in settings.items()}

    def clipped(self) -> Mapping[str, object]:
        trainer = self._trainer()
        if trainer is None or not self._clipping.has_clips:
            return {}
        arrays = {id(grad) for tensor in self._trained for grad in parameter_of(trainer, tensor).list_grad()[:1]}
        clip = self._clipping.take(arrays)
        if clip is None:
            return {}
        norm = clip.norm * abs(float(trainer._optimizer.rescale_grad))
        return {
            f"{self.prefix}{NORM}_before_clipping": norm,
            f"{self.prefix}gradient_clipped": float(clip.is_clipped),
        }

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> MXNetProgram | None:
        trainer = self._trainer()
        if trainer is None:
            return None
        program = MXNetProgram(trainer, self._trained, items, self.label, self.prefix, self._note)
        return None if program.is_empty else program


class MXNetProgram:
    """See ``leadline.frameworks.adapter.Program``: arrays are read as numpy arrays, one after the other."""

    def __init__(
        self,
        trainer: Any,
        trained: Sequence[NamedTensor],
        items: Sequence[CaptureItem],
        label: str,
        prefix: str,
        note: Callable[[str], None],
    ) -> None:
        self._trainer, self._items, self._label = weakref.ref(trainer), items, label
        self._captured = CapturedArrays(note)
        self._captured.begin(items, "train")
        self._weights = [tensor for tensor in trained if self._is_requested(tensor.name, tensor.collections)]
        self._updated = [tensor for tensor in trained if self._has_update_ratio(tensor)]
        self._wants_norm = wants_norm(items, prefix)
        self._gradients = [
            tensor
            for tensor in trained
            if self._wants_norm or self._is_requested(gradient_name(tensor.name), GRADIENTS)
        ]
        self._wants_states = may_select(items, OPTIMIZER_VARIABLES)
        self._trained = trained
        self._norm_block = ColumnSet((norm_info(prefix + NORM, items),), ((0, "value"),))
        self._before: dict[str, Array] = {}
        self.update_layout: SeriesLayout | None = None
        if self._updated:
            infos = tuple(self._info(trainer, tensor) for tensor in self._updated)
            self.update_layout = SeriesLayout(infos, tuple((at, "update_ratio") for at in range(len(infos))))

    @property
    def is_empty(self) -> bool:
        """Whether the items select nothing of the trainer."""
        return not (self._weights or self._gradients or self._wants_states)

    def before(self) -> tuple[SeriesLayout, bytes] | None:
        trainer = self._trainer()
        self._captured.begin(self._items, "train")
        if trainer is None:
            return None
        updated = {tensor.name for tensor in self._updated}
        for tensor in self._weights:
            values = read(parameter_of(trainer, tensor).list_data()[0])
            self._captured.keep(tensor.name, tensor.collections, values)
            if tensor.name in updated:
                self._before[tensor.name] = values
        self._keep_gradients(trainer)
        if self._wants_states:
            for name, array in self._states(trainer):
                self._captured.keep(name, (OPTIMIZER_VARIABLES,), read(array))
        return self._captured.row()

    def after(self) -> bytes | None:
        trainer = self._trainer()
        before, self._before = self._before, {}
        if not before or trainer is None:
            return None
        ratios = [
            update_ratio(before[tensor.name], read(parameter_of(trainer, tensor).list_data()[0]))
            for tensor in self._updated
        ]
        return np.array(ratios, "<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        return self._captured.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        return self._captured.fill(buffer)

    def _keep_gradients(self, trainer: Any) -> None:
        norms = []
        for tensor in self._gradients:
            gradient = gradient_of(trainer, tensor)
            self._captured.keep(gradient_name(tensor.name), GRADIENTS, gradient)
            if self._wants_norm:
                norms.append(l2_of(gradient))
        if norms:
            with np.errstate(all="ignore"):
                norm = np.sqrt(np.sum(np.square(norms), keepdims=True))
            self._captured.keep_numbers(self._norm_block, norm)

    def _states(self, trainer: Any) -> Iterator[tuple[str, Any]]:
        """Yield the arrays that the optimizer keeps for each parameter, with their names."""
        updater = trainer._kvstore._updater if is_updated_on_kvstore(trainer) else trainer._updaters[0]
        kind = type(trainer._optimizer).__name__
        for tensor in self._trained:
            state = getattr(updater, "states", {}).get(tensor.source)
            names = _STATES.get(kind, ())
            for at, array in enumerate(arrays_in(state)):
                yield f"{self._label}/{names[at] if at < len(names) else at}/{tensor.name}", array

    def _is_requested(self, name: str, collections: tuple[str, ...]) -> bool:
        statistics, is_raw = self._captured.requested(name, collections)
        return bool(statistics) or is_raw

    def _has_update_ratio(self, tensor: NamedTensor) -> bool:
        return "update_ratio" in self._captured.requested(tensor.name, tensor.collections)[0]

    def _info(self, trainer: Any, tensor: NamedTensor) -> TensorInfo:
        array = parameter_of(trainer, tensor).list_data()[0]
        return tensor.info(self._items, array.shape, np.dtype(array.dtype).name)


def gradient_of(trainer: Any, tensor: NamedTensor) -> Array:
    """Return a gradient as the optimizer uses it: summed over the contexts, rescaled, and clipped by element.

    Shape:
        result: that of the parameter.
    """
    optimizer = trainer._optimizer
    gradients = parameter_of(trainer, tensor).list_grad()
    values: Array = read(gradients[0])
    if is_updated_on_kvstore(trainer):  # the store adds them up later
        for gradient in gradients[1:]:
            values = values + read(gradient)
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # as the update computes
    with np.errstate(all="ignore"):
        values *= values.dtype.type(optimizer.rescale_grad)  # in place: it is a copy
    bound = optimizer.clip_gradient
    return np.asarray(np.clip(values, -bound, bound)) if bound else values


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
