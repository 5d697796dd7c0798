"""Interception of the logging libraries' functions, and the script's live experiment trackers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import ModuleType
from typing import Any, Final, Protocol

from leadline.frameworks.loggers.printed_values import PrintedValues
from leadline.frameworks.patches import MakeReplacement, Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.instrumentation.guard import Guard

# --- the live trackers, into which Leadline can log next to the script ---------------------------------------


class ScriptTracker(Protocol):
    """One live run of a tracking library, opened by the script.

    **Not in the training thread** - ``log`` may be slow or hang, and may raise anything.
    """

    @property
    def library(self) -> str:
        """``wandb``, ``mlflow`` or ``tensorboard``."""

    @property
    def title(self) -> str:
        """Display name: ``wandb run 3f9x``."""

    def log(self, name: str, value: float, step: int) -> None:
        """Log a number without changing the script's own rows, steps or their order.

        Raises:
            TrackerClosedError: The run has ended.
            Exception: Whatever the library raises.
        """


class TrackerClosedError(Exception):
    """The script has ended the run, or the library has."""


class Trackers:
    """Finds the live trackers of all libraries that the script imports."""

    def __init__(self) -> None:
        self._sources: tuple[Callable[[], Iterable[ScriptTracker]], ...] = ()

    def register(self, source: Callable[[], Iterable[ScriptTracker]]) -> None:
        """Add a function that returns a library's live runs; it is called in any thread, and uses no network."""
        self._sources = (*self._sources, source)

    def find(self) -> list[ScriptTracker]:
        """Return the live trackers; those that use a network come last, since they may hang."""
        trackers = [tracker for source in self._sources for tracker in source()]
        return sorted(trackers, key=lambda tracker: tracker.library == "mlflow")


# --- interception: logged values become scalars of the recorder ----------------------------------------------

COLLECTION: Final = "metrics"

Read = Callable[..., Mapping[str, Any]]
"""Takes the arguments of a function call and returns the logged values by name."""


class OverheadMeter(Protocol):
    """Accounts for the time that Leadline takes."""

    own_ns: int
    loop_ns: int


class ScalarSink(Protocol):
    """The parts of the recorder that the interceptor uses."""

    @property
    def cost(self) -> OverheadMeter:
        """The overhead meter."""

    def log(self, values: Mapping[str, Any], collection: str) -> object:
        """Record scalars."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.forwarded: list[Mapping[str, Any] | None] = []
        """Values that the active calls forward to other libraries; None: they forward nothing new."""


class Interceptor:
    """Wraps the functions of logging libraries and records what is logged.

    **One scalar** - a value that one library forwards to another is recorded once.
    """

    def __init__(
        self, sink: ScalarSink, guard: Guard, number: Callable[[Any], Any], printed: PrintedValues | None = None
    ) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
            printed: Takes what the script prints; None: nothing does.
        """
        self.guard, self.printed = guard, printed
        self.patches = Patches()
        self.trackers = Trackers()
        """The script's live experiment trackers."""
        self._sink, self._number = sink, number
        self._state = _ThreadState()

    def replace(self, owner: Any, name: str, make: MakeReplacement) -> None:
        """Replace a function of a library; see ``Patches.replace``."""
        self.patches.replace(owner, name, lambda original: hide_from_dynamo(make(original)))

    def after(self, read: Read) -> MakeReplacement:
        """Record what a function logs after it has returned."""
        run, record = self.guard.run, self.record

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def recording(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                run(record, read, args, kwargs)
                return result

            return recording

        return wrap

    def before(self, callback: Callable[..., None]) -> MakeReplacement:
        """Call ``callback`` with a function's arguments before the function is called."""
        run = self.guard.run

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def announcing(*args: Any, **kwargs: Any) -> Any:
                run(callback, *args, **kwargs)
                return original(*args, **kwargs)

            return announcing

        return wrap

    def around(self, forwarded: Callable[..., Mapping[str, Any] | None], read: Read) -> MakeReplacement:
        """Record what a function logs, and nothing of what it forwards to other libraries.

        Args:
            forwarded: Returns the forwarded values for the function's arguments; None: everything logged meanwhile.
        """
        run, record, state = self.guard.run, self.record, self._state

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def recording(*args: Any, **kwargs: Any) -> Any:
                state.forwarded.append(run(forwarded, *args, **kwargs))
                try:
                    result = original(*args, **kwargs)
                finally:
                    state.forwarded.pop()
                run(record, read, args, kwargs)
                return result

            return recording

        return wrap

    def record(self, read: Read, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record what a function logs that is called with these arguments."""
        start_ns = time.thread_time_ns()
        values = read(*args, **kwargs)
        scalars = {name: value for name, value in self.scalars(values).items() if not self._is_forwarded(name, value)}
        if scalars:
            self._sink.log(scalars, COLLECTION)
            if self.printed is not None:
                self.printed.note_logged()
        if self._sink.cost.loop_ns:
            self._sink.cost.own_ns += time.thread_time_ns() - start_ns

    def read_printed(self, read: Callable[..., object], *args: Any, **options: Any) -> None:
        """Call a method of ``printed`` with what the script prints, and account for the time."""
        if self.printed is not None:
            start_ns = time.thread_time_ns()
            read(self.printed, *args, **options)
            if self._sink.cost.loop_ns:
                self._sink.cost.own_ns += time.thread_time_ns() - start_ns

    def scalars(self, values: Mapping[str, Any]) -> dict[str, object]:
        """Return those values that are real scalars, as floats or tensors of one element on a device."""
        scalars = {name: scalar(value) for name, value in values.items()}
        return {
            name: self._number(value) if is_on_host(value) else value
            for name, value in scalars.items()
            if value is not None
        }

    def _is_forwarding(self) -> bool:
        return None in self._state.forwarded

    def _is_forwarded(self, name: str, value: Any) -> bool:
        if self._is_forwarding():
            return True
        return any(
            name in forwarded or any(is_same(other, value) for other in self.scalars(forwarded).values())
            for forwarded in self._state.forwarded
            if forwarded is not None
        )


@dataclass(frozen=True, slots=True)
class LoggingLibrary:
    """A logging library and the replacements of its functions."""

    name: str
    patches: Mapping[str, Callable[[ModuleType, Interceptor], None]]
    """For each module the function that replaces its functions once it is imported."""


def scalar(value: Any) -> Any:
    """Return a value as a float or as a tensor of one element; None if it is not a real scalar.

    Only plain tensors count: reading a distributed tensor may be a collective operation.
    """
    if isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            return None
    torch = sys.modules.get("torch")
    if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
        is_readable = value.numel() == 1 and value.layout is torch.strided and not value.is_meta
        return value if is_readable and not value.is_complex() else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return float(value.item()) if value.size == 1 and value.dtype.kind in "biuf" else None
    return None


def is_on_host(value: Any) -> bool:
    """Return whether a result of ``scalar`` can be read without waiting for a device."""
    return isinstance(value, float) or value.device.type == "cpu"


def is_same(one: Any, other: Any) -> bool:
    """Return whether two results of ``scalar`` are equal; NaN equals NaN, and a tensor only itself."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    return one is other
