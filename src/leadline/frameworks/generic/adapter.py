"""The adapter of ``leadline.Hook``: the script passes arrays and numbers, and ends the steps itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.adapter import Program, StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Fact, Guard
from leadline.records.names import SCALAR_COLLECTIONS, Family
from leadline.records.plan import CaptureItem
from leadline.records.series import StepStamp

NAME: Final = "generic"
_KINDS: Final = "biufc"
_LOSS: Final = re.compile(r"(?:^|[\W_])loss(?:$|[\W_])", re.IGNORECASE)


class Loop:
    """The script's own training loop; it takes the place of an optimizer.

    Args:
        name: Its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class _LoopSubject:
    """See ``leadline.frameworks.adapter.Subject``: only its name is known."""

    optimizer = ""
    parameters = elements = trainable = 0

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
    """See ``leadline.frameworks.adapter.Adapter`` and ``Evaluates``.

    Args:
        loop: The script's training loop.
        note: Takes a line about something that cannot be captured.
    """

    name = NAME
    family: Family = "arrays"

    def __init__(self, loop: Loop, note: Callable[[str], None]) -> None:
        self._loop, self._note = loop, note
        self._callbacks: StepCallbacks | None = None
        self._arrays: Fact | None = None
        self._training = CapturedArrays(note)
        self._evaluation = CapturedArrays(note)
        self._is_watched = False
        self._evaluated: StepStamp | None = None
        """The eval step in which something was captured last."""

    # --- calls from the hook ------------------------------------------------------------------------------

    def save(self, name: str, array: Any, collections: tuple[str, ...], mode: str) -> None:
        """Capture an array of the current step, if that is scheduled; it is read at once."""
        if self._callbacks is None:
            return
        captured = self._callbacks.given.arrays(name, mode) or self._captured(mode)
        if captured is None:
            return
        begun, begun_cpu = time.perf_counter_ns(), time.thread_time_ns()
        values = self._arrays.call(_as_array, array) if self._arrays is not None else None
        if values is None:
            self._note(f"{name} is not captured: not a numeric array: {type(array).__name__}")
        else:
            captured.keep(name, collections, values)
        captured.own_ns += time.thread_time_ns() - begun_cpu
        captured.begun_ns = captured.begun_ns or begun

    def log(self, values: Mapping[str, Any], mode: str) -> None:
        """Record numbers of the current step; names with the word loss are losses."""
        if self._callbacks is None:
            return
        for name, value in values.items():
            number, is_loss = _as_number(value), _LOSS.search(name) is not None
            if number is None:
                self._note(f"{name} is not captured: not a number: {type(value).__name__}")
            elif not self._callbacks.given.follow(name, number, mode, is_loss=is_loss):
                self._captured(mode)
                self._log(name, number, mode, is_loss=is_loss)

    def _log(self, name: str, number: float, mode: str, *, is_loss: bool) -> None:
        """Record a number of the current step."""
        assert self._callbacks is not None
        if not is_loss:
            self._callbacks.log({name: number})
        elif mode != "train":
            self._callbacks.evaluation.record_loss(name, number)
        elif self._callbacks.wants_loss():
            self._callbacks.record_loss(name, number, name)

    def step(self, mode: str) -> None:
        """End the current step.

        Raises:
            TrainingStopped: A stop was requested.
        """
        if self._callbacks is None:
            return
        if mode != "train":
            self._captured(mode)
            self.end_evaluation()
        else:
            self._callbacks.before_update(self._loop)
            self._callbacks.after_update(self._loop, is_skipped=False)
        self._callbacks.given.close_step()

    def _captured(self, mode: str) -> CapturedArrays | None:
        """Return the capture of a mode; None if nothing is scheduled."""
        if mode == "train" or self._callbacks is None:
            return self._training if self._is_watched else None
        evaluation = self._callbacks.evaluation
        is_new = evaluation.stamp is None or evaluation.stamp is not self._evaluated
        items = evaluation.join_step(self._evaluation, mode)
        if is_new:
            self._evaluation.begin(items, mode)
            self._evaluated = evaluation.stamp
        else:
            self._evaluation.extend(items)
        return self._evaluation

    # --- Adapter and Evaluates ----------------------------------------------------------------------------

    def version(self) -> str:
        return ""

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        self._callbacks = callbacks
        self._arrays = callbacks.facts.of("arrays that the script passes are", is_vital=True)

    def uninstall(self) -> None:
        self._callbacks = None
        self._is_watched = False

    def knows(self, thing: object) -> bool:
        return isinstance(thing, Loop)

    def register(self, model: object) -> None:
        """Do nothing: a loop has no models."""

    def captures_between_steps(self, item: CaptureItem) -> bool:
        if item.collection == "all":
            return item.source == "option"
        return item.collection not in SCALAR_COLLECTIONS

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._is_watched:
            self._training.extend(items)
            return
        self._is_watched = bool(items)
        self._training.begin(items, "train")

    def end_forward(self) -> CapturedArrays | None:
        self._is_watched = False
        return None if self._training.is_empty else self._training

    def end_evaluation(self) -> None:
        evaluation = self._callbacks.evaluation if self._callbacks is not None else None
        if evaluation is not None and evaluation.stamp is not None and evaluation.stamp is self._evaluated:
            evaluation.end_step(self._evaluation)

    def set_mode(self, *, is_evaluation: bool) -> None:
        """Do nothing: each call of the hook names its mode."""

    def subject(self, optimizer: Any) -> _LoopSubject:
        return _LoopSubject(optimizer)

    def describe(self) -> TrainingDescription:
        return {}


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _as_array(array: Any) -> Any | None:
    """Return the values as a numpy array; None if they are not numbers."""
    if hasattr(array, "asnumpy"):
        array = array.asnumpy()  # an array of MXNet
    elif hasattr(array, "detach"):
        array = array.detach().cpu()  # a tensor of PyTorch
    try:
        values = np.asarray(array)
    except (TypeError, ValueError, RuntimeError):
        return None
    return values if values.dtype.kind in _KINDS else None
