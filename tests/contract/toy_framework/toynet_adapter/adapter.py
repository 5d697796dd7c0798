"""The adapter: what the recorder asks of the toy framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import toynet

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.labels import Labels
from leadline.instrumentation.guard import Guard
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, may_select_module_tensors
from toynet_adapter.capture import ToySubject
from toynet_adapter.hooks import ToyHooks


class ToyAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    Args:
        note: Takes a line about something that cannot be captured.
    """

    name = "toynet"
    family: Family = "network"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._labels = note, Labels()
        self._hooks: ToyHooks | None = None

    def version(self) -> str:
        return toynet.__version__

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        self._hooks = ToyHooks(callbacks, guard, self._note)
        self._hooks.install()

    def uninstall(self) -> None:
        if self._hooks is not None:
            self._hooks.uninstall()
        self._hooks = None

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (toynet.Layer, toynet.Momentum))

    def register(self, model: object) -> None:
        """Do nothing: an optimizer has its model."""

    def describe(self) -> dict[str, Any]:
        return {}

    def subject(self, optimizer: Any) -> ToySubject:
        return ToySubject(optimizer, self._labels, self._note)

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return may_select_module_tensors(item)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._hooks is not None:
            self._hooks.watch(items)

    def end_forward(self) -> CapturedArrays | None:
        return self._hooks.end_forward() if self._hooks is not None else None
