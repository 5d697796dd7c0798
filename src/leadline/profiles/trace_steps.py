"""TraceSteps and slices of the traces of profile windows."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from leadline.errors import DamagedRunError, LeadlineError
from leadline.records.profile_window import TraceStep, is_step, is_window_document, train_step_of
from leadline.store import layout
from leadline.store.documents import read_document


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """A time slice of a trace: a module's forward pass, an operator, an annotation or a kernel."""

    kind: Literal["module", "operator", "annotation", "device"]
    name: str
    track: str
    """``thread 4711``, ``gpu0 stream 7``."""
    start_ns: int
    duration_ns: int
    step: int
    mode: str
    phase: str
    module: str


def read_steps(folder: str) -> list[TraceStep]:
    """Return the steps of a window, with train steps in place of global ones."""
    document = read_document(os.path.join(folder, layout.TRACE_STEPS))
    stored = document.get("steps") if isinstance(document, dict) else None
    steps: list[TraceStep] = (
        [{"marks": {}, **step} for step in stored if is_step(step)] if isinstance(stored, list) else []
    )
    window = read_document(os.path.join(folder, layout.WINDOW))
    if not is_window_document(window):
        return steps
    positions = train_step_of(window, [(step["step"], step["mode"]) for step in steps])
    return [{**step, "step": positions[step["step"]]} for step in steps]


@contextmanager
def content_of(path: str) -> Iterator[None]:
    """Report what damaged content of a file raises, which can be nearly anything, as damage of that file.

    Raises:
        DamagedRunError: The content is not what a profiler writes.
    """
    try:
        yield
    except LeadlineError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DamagedRunError(f"{path} cannot be read: its content is damaged ({error!r})") from error


class TraceSteps:
    """Lookup of the step at a time."""

    def __init__(self, steps: Sequence[TraceStep]) -> None:
        self._steps = list(steps)
        self._starts = [step["start_ns"] for step in steps]

    def at(self, time_ns: int) -> tuple[int, str]:
        """Return the train step and the mode; -1 if there is no step."""
        index = max(0, bisect_right(self._starts, time_ns) - 1)
        return (self._steps[index]["step"], self._steps[index]["mode"]) if self._steps else (-1, "")

    def is_before_backward(self, time_ns: int) -> bool:
        """Return whether the step's backward pass had not started."""
        index = max(0, bisect_right(self._starts, time_ns) - 1)
        backward_ns = self._steps[index]["marks"].get("backward") if self._steps else None
        return backward_ns is None or time_ns < backward_ns
