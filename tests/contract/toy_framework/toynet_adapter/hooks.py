"""Hooks at the calls of layers and losses, at backward passes and at updates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import toynet

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.call_site import CallSite
from leadline.frameworks.patches import Patches
from leadline.frameworks.process_memory import process_memory
from leadline.instrumentation.guard import Guard
from leadline.records.plan import CaptureItem
from toynet_adapter.losses import ToyLossFacts

Original = Callable[..., Any]


class ToyHooks:
    """Replaces methods of the toy framework, and calls the recorder."""

    def __init__(self, callbacks: StepCallbacks, guard: Guard, note: Callable[[str], None]) -> None:
        self._callbacks, self._guard, self._patches = callbacks, guard, Patches()
        self._captured, self._facts = CapturedArrays(note), ToyLossFacts()
        self._fact = callbacks.facts.of("facts about loss calls are")
        self._depth, self._is_watched = 0, False
        self._losses: dict[int, str] = {}
        """The names of the losses since the last update, by the ids of their tensors."""
        self._sites: dict[tuple[CodeType, int], CallSite] = {}

    def install(self) -> None:
        """Replace the methods."""
        self._patches.replace(toynet.Layer, "__call__", self._make_call)
        self._patches.replace(toynet.Tensor, "backward", self._make_backward)
        self._patches.replace(toynet.Momentum, "step", self._make_step)

    def uninstall(self) -> None:
        """Restore the methods."""
        self._patches.restore()

    def watch(self, items: Sequence[CaptureItem]) -> None:
        """Capture the items in the step that begins, or in the rest of it."""
        if self._is_watched:
            self._captured.extend(items)
        else:
            self._is_watched = True
            self._captured.begin(items, "train")

    def end_forward(self) -> CapturedArrays | None:
        """End the capture of layers; return what was captured."""
        self._is_watched = False
        return None if self._captured.is_empty else self._captured

    # --- calls of layers and losses -----------------------------------------------------------------------

    def _make_call(self, original: Original) -> Original:
        def __call__(layer: toynet.Layer, *inputs: toynet.Tensor) -> toynet.Tensor:
            self._guard.run(self._begin_call, layer, inputs)
            self._depth += 1
            try:
                output: toynet.Tensor = original(layer, *inputs)
            finally:
                self._depth -= 1
            self._guard.run(self._end_call, layer, output)
            return output

        return __call__

    def _begin_call(self, layer: toynet.Layer, inputs: Sequence[toynet.Tensor]) -> None:
        is_loss = isinstance(layer, toynet.Loss)
        if is_loss and self._callbacks.loss_facts_step() is not None:
            self._fact.call(self._facts.add, layer.name, *inputs)
        if not is_loss and not self._depth:
            self._callbacks.timeline.begin_model()
        roles = ("predictions", "labels") if is_loss else ("inputs",) * (not self._depth)
        self._keep(layer, "input", roles, inputs)

    def _end_call(self, layer: toynet.Layer, output: toynet.Tensor) -> None:
        if isinstance(layer, toynet.Loss):
            self._losses[id(output)] = f"{layer.name}_output_0"
        else:
            self._keep(layer, "output", ("outputs",) * (not self._depth), [output])

    def _keep(self, layer: toynet.Layer, side: str, roles: Sequence[str], tensors: Sequence[toynet.Tensor]) -> None:
        if self._is_watched:
            kind = f"{type(layer).__name__.lower()}_{side}"
            for at, tensor in enumerate(tensors):
                self._captured.keep(f"{layer.name}_{side}_{at}", (*roles[at : at + 1], "layers", kind), tensor.data)

    # --- backward passes and updates ----------------------------------------------------------------------

    def _make_backward(self, original: Original) -> Original:
        def backward(tensor: toynet.Tensor) -> None:
            self._guard.run(self._begin_backward)
            original(tensor)
            frame = sys._getframe(1)
            self._guard.run(self._end_backward, tensor, (frame.f_code, frame.f_lasti))

        return backward

    def _begin_backward(self) -> None:
        self._callbacks.timeline.end_forward()
        self._callbacks.timeline.begin_backward()

    def _end_backward(self, loss: toynet.Tensor, place: tuple[CodeType, int]) -> None:
        if self._callbacks.wants_loss():
            site = self._sites.setdefault(place, CallSite(*place))
            self._callbacks.record_loss(site, float(loss.data.mean()), self._losses.get(id(loss)))
        self._callbacks.timeline.end_backward()

    def _make_step(self, original: Original) -> Original:
        def step(optimizer: toynet.Momentum) -> None:
            self._guard.run(self._begin_update, optimizer)
            original(optimizer)
            self._guard.run(self._end_update, optimizer)

        return step

    def _begin_update(self, optimizer: toynet.Momentum) -> None:
        callbacks = self._callbacks
        callbacks.before_update(optimizer)
        if callbacks.wants_checks():
            callbacks.record_checks(process_memory())
        if callbacks.loss_facts_step() is not None:
            callbacks.record_checks(self._fact.call(self._facts.take) or {})
        callbacks.timeline.begin_update()

    def _end_update(self, optimizer: toynet.Momentum) -> None:
        self._losses.clear()
        self._callbacks.timeline.end_update()
        self._callbacks.after_update(optimizer, is_skipped=False)
