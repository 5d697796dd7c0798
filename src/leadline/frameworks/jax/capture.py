"""Capture of the weights, gradients and optimizer state of one training."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.capture_requests import CapturedTensor, ColumnSets, gradient_norms
from leadline.frameworks.jax.step_calls import ORIGIN, StepOwner
from leadline.frameworks.jax.steps import TrainingSteps
from leadline.frameworks.jax.tensors import info_of, ratios_of, tensors_of
from leadline.frameworks.kit.gradient_norms import wants_norm
from leadline.frameworks.kit.named_tensor import ON_UPDATE
from leadline.frameworks.pending import Pending
from leadline.records.names import OPTIMIZER_VARIABLES
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout
from leadline.store.tensors import CaptureForm, HostBuffer

_PARAMETERS = frozenset({"weights", "biases"})
_OWN = _PARAMETERS | {"gradients", OPTIMIZER_VARIABLES}


class JaxSubject:
    """See ``leadline.frameworks.adapter.Subject``.

    Args:
        owner: The function or the optimizer.
        steps: Computes the current step once more.
        note: Takes a line about something that cannot be captured.
    """

    def __init__(self, owner: StepOwner, steps: TrainingSteps, note: Callable[[str], None]) -> None:
        self._owner, self._steps, self._note = weakref.ref(owner), steps, note
        self._sites = owner.sites
        tensors = tensors_of(owner.sites, owner.prefix)
        self.model, self.optimizer = owner.model, owner.optimizer
        self.parameters = sum(bool(_PARAMETERS & set(tensor.collections)) for tensor in tensors)
        self.elements = self.trainable = 0

    def is_current(self) -> bool:
        owner = self._owner()
        return owner is not None and owner.sites == self._sites

    def hyperparameters(self) -> Mapping[str, object]:
        owner = self._owner()
        return owner.settings if owner is not None else {}

    def clipped(self) -> Mapping[str, object]:
        return {}

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> JaxProgram | None:
        owner = self._owner()
        if owner is None or not owner.sites:
            return None
        return JaxProgram(items, owner, self._steps, self._note)


class JaxProgram:
    """See ``leadline.frameworks.adapter.Program``."""

    update_layout: SeriesLayout | None = None

    def __init__(
        self, items: Sequence[CaptureItem], owner: StepOwner, steps: TrainingSteps, note: Callable[[str], None]
    ) -> None:
        self._items, self._owner, self._steps = items, weakref.ref(owner), steps
        self._captured, self._blocks = CapturedArrays(note), ColumnSets()
        self._prefix = owner.prefix
        self._updated: list[str] = []
        if any(ON_UPDATE in item.statistics for item in items):
            with_update = ratios_of(owner.sites, owner.prefix)
            weights = [
                tensor
                for tensor in tensors_of(owner.sites, owner.prefix)
                if tensor.name in with_update and _selects_update(items, tensor.name, tensor.collections)
            ]
            self._updated = [tensor.name for tensor in weights]
            infos = tuple(info_of(tensor, items) for tensor in weights)
            if infos:
                self.update_layout = SeriesLayout(infos, tuple((at, ON_UPDATE) for at in range(len(infos))))

    def before(self) -> tuple[SeriesLayout, bytes] | None:
        self._captured.begin(self._items, "train")
        values = self._steps.values(self._items)
        self._keep_settings(values)
        own = [value for value in values if _OWN & set(value.info.collections)]
        self._blocks.keep(self._captured, self._items, own)
        self._blocks.keep(self._captured, (ORIGIN,), self._steps.origin())
        if wants_norm(self._items, self._prefix):
            self._blocks.keep_norms(self._captured, self._items, self._prefix, gradient_norms(own, None))
        return self._captured.row()

    def _keep_settings(self, values: Sequence[CapturedTensor]) -> None:
        owner = self._owner()
        settings = {v.info.name: float(v.numbers[0, 1]) for v in values if v.info.collections == ("hyperparameters",)}
        if owner is not None:
            owner.settings |= settings

    def after(self) -> bytes | None:
        ratios = self._steps.ratios(self._items) if self._updated else {}
        if not ratios:
            return None
        return np.array([ratios.get(name, np.nan) for name in self._updated], "<f8").tobytes()

    def take_blocked_ns(self) -> int:
        return self._steps.replayer.take_blocked_ns()

    def raw_form(self) -> CaptureForm | None:
        return self._captured.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        return self._captured.fill(buffer)


def _selects_update(items: Sequence[CaptureItem], name: str, collections: tuple[str, ...]) -> bool:
    members = frozenset(collections)
    return any(ON_UPDATE in item.statistics and item.selects(name, members) for item in items)
