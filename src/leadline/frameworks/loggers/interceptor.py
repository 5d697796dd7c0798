"""Interception of the logging libraries' functions: logged values become scalars of the recorder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Protocol

from leadline.frameworks.loggers.trackers import Trackers
from leadline.frameworks.loggers.values import is_on_host, is_same, scalar
from leadline.frameworks.patches import MakeReplacement, Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.training.guard import Guard

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

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        """Record scalars for the current step."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.forwarded: list[Mapping[str, Any] | None] = []
        """Values that the active calls forward to other libraries; None: they forward nothing new."""


class Interceptor:
    """Wraps the functions of logging libraries and records what is logged.

    **One scalar** - a value that one library forwards to another is recorded once.
    """

    def __init__(self, sink: ScalarSink, guard: Guard, number: Callable[[Any], Any]) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
        """
        self.guard = guard
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
        start_ns = time.perf_counter_ns()
        values = read(*args, **kwargs)
        scalars = {name: value for name, value in self._scalars(values).items() if not self._is_forwarded(name, value)}
        if scalars:
            self._sink.log(scalars, COLLECTION)
        if self._sink.cost.loop_ns:
            self._sink.cost.own_ns += time.perf_counter_ns() - start_ns

    def _scalars(self, values: Mapping[str, Any]) -> dict[str, Any]:
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
            name in forwarded or any(is_same(other, value) for other in self._scalars(forwarded).values())
            for forwarded in self._state.forwarded
            if forwarded is not None
        )


@dataclass(frozen=True, slots=True)
class LoggingLibrary:
    """A logging library and the replacements of its functions."""

    name: str
    patches: Mapping[str, Callable[[ModuleType, Interceptor], None]]
    """For each module the function that replaces its functions once it is imported."""
