"""The adapter of ``leadline.Hook``: arrays and numbers that the script hands over, steps that it ends itself."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.adapter import Depths, Program, StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.records.names import SCALAR_COLLECTIONS, Family
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

NAME: Final = "generic"
_KINDS: Final = "biufc"
_LOSS: Final = re.compile(r"(?:^|[\W_])loss(?:$|[\W_])", re.IGNORECASE)


class Loop:
    """Stands where an optimizer does: the script's own training loop.

    Args:
        name: What it is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class _LoopSubject:
    """See ``leadline.frameworks.adapter.Subject``: nothing is known of it but its name."""

    optimizer = ""
    parameters = 0

    def __init__(self, loop: Loop) -> None:
        self.model = loop.name

    def is_current(self) -> bool:
        return True

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> Program | None:
        return None

    def hyperparameters(self) -> dict[str, object]:
        return {}

    def clipped(self) -> dict[str, object]:
        return {}


class GenericAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    Args:
        loop: The script's training loop.
        tell: Takes a line about something that cannot be captured.
    """

    name = NAME
    family: Family = "arrays"
    depths: Depths | None = None

    def __init__(self, loop: Loop, tell: Callable[[str], None]) -> None:
        self._loop, self._tell = loop, tell
        self._probes: StepCallbacks | None = None
        self._training = CapturedArrays(tell)
        self._evaluation = CapturedArrays(tell)
        self._is_watched = self._is_evaluating = False

    # --- what the hook tells ------------------------------------------------------------------------------

    def save(self, name: str, array: Any, collections: tuple[str, ...], mode: str) -> None:
        """An array of the step under way; read at once where it is due."""
        captured = self._captured(mode)
        if captured is None:
            return
        begun = time.perf_counter_ns()
        values = _as_array(array)
        if values is None:
            self._tell(f"{name} is not captured: it is no array of numbers but a {type(array).__name__}")
        else:
            captured.keep(name, collections, values)
        captured.own_ns += time.perf_counter_ns() - begun
        captured.begun_ns = captured.begun_ns or begun

    def log(self, values: Mapping[str, Any], mode: str) -> None:
        """Numbers of the step under way; those with the word loss in their names are losses."""
        if self._probes is None:
            return
        self._captured(mode)
        for name, value in values.items():
            number = _as_number(value)
            if number is None:
                self._tell(f"{name} is not captured: it is no number but a {type(value).__name__}")
            elif not _LOSS.search(name):
                self._probes.log({name: number})
            elif mode != "train":
                self._probes.eval_loss(name, number)
            elif self._probes.wants_loss():
                self._probes.loss(name, number, name)

    def step(self, mode: str) -> None:
        """The step under way has ended.

        Raises:
            TrainingStopped: Somebody asked to stop.
        """
        if self._probes is None:
            return
        if mode != "train":
            self._captured(mode)
            self.end_evaluation()
            return
        self._probes.before_update(self._loop)
        self._probes.after_update(self._loop, is_skipped=False)

    def _captured(self, mode: str) -> CapturedArrays | None:
        """What arrays of a mode go to; None: nothing is due."""
        if mode == "train" or self._probes is None:
            return self._training if self._is_watched else None
        if not self._is_evaluating:
            self._is_evaluating = True
            self._evaluation.begin(self._probes.eval_step_begins(), mode)
        return self._evaluation

    # --- see Adapter --------------------------------------------------------------------------------------

    def version(self) -> str:
        return ""

    def install(self, probes: StepCallbacks, guard: Guard) -> None:
        self._probes = probes

    def uninstall(self) -> None:
        self._probes = None
        self._is_watched = self._is_evaluating = False

    def knows(self, thing: object) -> bool:
        return isinstance(thing, Loop)

    def register(self, model: object) -> None:
        """There are no models here."""

    def hears(self, item: CaptureItem) -> bool:
        if item.collection == "all":
            return item.source == "option"
        return item.collection not in SCALAR_COLLECTIONS

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        self._is_watched = bool(items)
        self._training.begin(items, "train")

    def end_forward(self) -> CapturedArrays | None:
        self._is_watched = False
        return None if self._training.is_empty else self._training

    def end_evaluation(self) -> None:
        if self._is_evaluating and self._probes is not None:
            self._is_evaluating = False
            self._probes.eval_step_ends(self._evaluation)

    def name_mode(self, *, is_evaluation: bool) -> None:
        """The hook says at each call which mode it means."""

    def subject(self, optimizer: Any) -> _LoopSubject:
        return _LoopSubject(optimizer)

    def is_distributed(self) -> bool:
        return False

    def rank(self) -> int | None:
        return None

    def number(self, value: Any) -> float:
        return float(value)

    def row(self, values: Sequence[Any]) -> bytes:
        return struct.pack(f"<{len(values)}d", *values)

    def describe(self) -> dict[str, Any]:
        return {}

    def survey(self, optimizers: Sequence[object]) -> dict[str, Any]:
        return {"models": [], "optimizers": [], "module_kinds": []}

    def uncovered(self, optimizers: Sequence[object], backwards: int) -> list[dict[str, str]]:
        return []


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _as_array(array: Any) -> Any | None:
    """As numpy has it; None: it is no array of numbers."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()  # a tensor of PyTorch
    try:
        found = np.asarray(array)
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if found.dtype.kind in _KINDS else None
