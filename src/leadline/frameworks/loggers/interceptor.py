"""Interception of the logging libraries' functions: logged values become scalars of the recorder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from leadline.frameworks.loggers.patches import MakeWrapper
from leadline.frameworks.loggers.trackers import Trackers
from leadline.frameworks.loggers.unique_names import UniqueNames
from leadline.frameworks.loggers.unnamed_values import UnnamedValues
from leadline.frameworks.loggers.values import is_on_host, is_same, scalar
from leadline.training.guard import Guard

if TYPE_CHECKING:
    from leadline.training.timeline.step_clock import StepClock

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
    def clock(self) -> StepClock:
        """The step clock."""

    @property
    def cost(self) -> OverheadMeter:
        """The overhead meter."""

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        """Record scalars for the current step."""

    def withdraw(self, name: str, collection: str) -> None:
        """Remove a scalar from the current step."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.forwarded: list[Mapping[str, Any] | None] = []
        """Values that the active calls forward to other libraries; None: they forward nothing new."""


class Interceptor:
    """Wraps the functions of logging libraries and records what is logged.

    **One scalar** - a value that one library forwards to another, or that a metric computes and the script logs under
    a name, is recorded once.
    """

    def __init__(self, sink: ScalarSink, guard: Guard, number: Callable[[Any], Any]) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
        """
        self.guard = guard
        self.names = UniqueNames()
        """Names of the objects that have none of their own."""
        self.trackers = Trackers()
        """The script's live experiment trackers."""
        self._sink, self._number = sink, number
        self._state = _ThreadState()
        self._unnamed = UnnamedValues(_is_value_of)

    # --- wrappers -----------------------------------------------------------------------------------------

    def after(self, read: Read) -> MakeWrapper:
        """Record what a function logs after it has returned."""
        run, record = self.guard.run, self._record

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def recording(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                run(record, read, args, kwargs)
                return result

            return recording

        return wrap

    def before(self, callback: Callable[..., None]) -> MakeWrapper:
        """Call ``callback`` with a function's arguments before the function is called."""
        run = self.guard.run

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def announcing(*args: Any, **kwargs: Any) -> Any:
                run(callback, *args, **kwargs)
                return original(*args, **kwargs)

            return announcing

        return wrap

    def around(self, forwarded: Callable[..., Mapping[str, Any] | None], read: Read) -> MakeWrapper:
        """Record what a function logs, and nothing of what it forwards to other libraries.

        Args:
            forwarded: Returns the forwarded values for the function's arguments; None: everything logged meanwhile.
        """
        run, record, state = self.guard.run, self._record, self._state

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

    # --- values without a name ----------------------------------------------------------------------------

    def log_unnamed(self, owner: Any, values: Mapping[str, Any]) -> None:
        """Record values that have no name yet; if the script logs them under a name, that name is used."""
        scalars = {name: value for name, value in self._scalars(values).items() if not self._is_forwarding()}
        self._unnamed.add(owner, scalars, self._sink.clock.step)
        self._sink.log(scalars, COLLECTION)

    def is_named(self, owner: Any) -> bool:
        """Return whether the values of an object are always logged under a name."""
        return self._unnamed.is_named(owner)

    def name_owner(self, owner: Any) -> None:
        """Note that an object itself is logged under a name, so its values need no other."""
        self._withdraw(self._unnamed.name_owner(owner, self._sink.clock.step))

    def name_values(self, values: Mapping[str, Any]) -> None:
        """Note that values are logged under names."""
        for name, number in self._scalars(values).items():
            self._withdraw(self._unnamed.name_value(name, values[name], number, self._sink.clock.step))

    # --- internals ----------------------------------------------------------------------------------------

    def _record(self, read: Read, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        start_ns = time.perf_counter_ns()
        values = read(*args, **kwargs)
        self.name_values(values)
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
            name in forwarded or any(_is_same_value(other, value) for other in self._scalars(forwarded).values())
            for forwarded in self._state.forwarded
            if forwarded is not None
        )

    def _withdraw(self, names: list[str]) -> None:
        for name in names:
            self._sink.withdraw(name, COLLECTION)


def _is_same_value(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return is_same(one, other)
    return one is other


def _is_value_of(metric: Any, value: Any) -> bool:
    """Return whether a value is the object that a metric keeps as its latest result."""
    attributes = vars(metric)
    return value is not None and (value is attributes.get("_forward_cache") or value is attributes.get("_computed"))
