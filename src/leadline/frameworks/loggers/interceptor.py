"""Where everything that libraries were told arrives: made one scalar each, and handed to the recorder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from leadline.frameworks.loggers.patches import Make
from leadline.frameworks.loggers.trackers import Trackers
from leadline.frameworks.loggers.unique_names import UniqueNames
from leadline.frameworks.loggers.unnamed_values import UnnamedValues
from leadline.frameworks.loggers.values import is_on_host, is_same, scalar
from leadline.training.guard import Guard

if TYPE_CHECKING:
    from leadline.training.timeline.step_clock import StepClock

COLLECTION: Final = "metrics"

Read = Callable[..., Mapping[str, Any]]
"""Takes the arguments of a function that was called; gives what they log, by name."""


class OverheadMeter(Protocol):
    """Where the time is counted that we take."""

    own_ns: int
    loop_ns: int


class ScalarSink(Protocol):
    """What the tap needs of the recorder."""

    @property
    def clock(self) -> StepClock:
        """Tells which step is under way."""

    @property
    def cost(self) -> OverheadMeter:
        """What watching takes of the training's time."""

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        """Keep scalars for the step under way."""

    def withdraw(self, name: str, collection: str) -> None:
        """Forget a scalar of the step under way."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.passed_on: list[Mapping[str, Any] | None] = []
        """What the calls under way pass on to other libraries; None: they pass on nothing new."""


class Interceptor:
    """Listens.

    **One scalar** - what a library passes on to another, and a metric's own value that is logged under a name, are
    kept once.
    """

    def __init__(self, sink: ScalarSink, guard: Guard, number: Callable[[Any], Any]) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
        """
        self.guard = guard
        self.names = UniqueNames()
        """Of the objects that nobody named."""
        self.trackers = Trackers()
        """Of the libraries that are listened to."""
        self._sink, self._number = sink, number
        self._local = _Local()
        self._unnamed = UnnamedValues(_gave)

    # --- ways to listen -----------------------------------------------------------------------------------

    def after(self, read: Read) -> Make:
        """Hear what a function was told, once it has returned."""
        run, hear = self.guard.run, self._hear

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def heard(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                run(hear, read, args, kwargs)
                return result

            return heard

        return make

    def before(self, notice: Callable[..., None]) -> Make:
        """Let us know that a function is about to be called."""
        run = self.guard.run

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def noticed(*args: Any, **kwargs: Any) -> Any:
                run(notice, *args, **kwargs)
                return original(*args, **kwargs)

            return noticed

        return make

    def around(self, passes_on: Callable[..., Mapping[str, Any] | None], read: Read) -> Make:
        """Hear what a function was told, and none of what it passes on to other libraries.

        Args:
            passes_on: Gives what that is, from the function's arguments; None: everything that is heard meanwhile.
        """
        run, hear, local = self.guard.run, self._hear, self._local

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def heard(*args: Any, **kwargs: Any) -> Any:
                local.passed_on.append(run(passes_on, *args, **kwargs))
                try:
                    result = original(*args, **kwargs)
                finally:
                    local.passed_on.pop()
                run(hear, read, args, kwargs)
                return result

            return heard

        return make

    # --- values without a name ----------------------------------------------------------------------------

    def tell_unnamed(self, owner: Any, values: Mapping[str, Any]) -> None:
        """Tell values that nobody has named yet; where they are logged under a name, that name holds."""
        found = {name: value for name, value in self._scalars(values).items() if not self._is_quiet()}
        self._unnamed.add(owner, found, self._sink.clock.step)
        self._sink.log(found, COLLECTION)

    def is_named(self, owner: Any) -> bool:
        """Whether what an object gives is logged under a name anyway."""
        return self._unnamed.is_named(owner)

    def name_owner(self, owner: Any) -> None:
        """An object itself is logged under a name: what it gives needs no other."""
        self._withdraw(self._unnamed.name_owner(owner, self._sink.clock.step))

    def name_values(self, values: Mapping[str, Any]) -> None:
        """Values are logged under names."""
        for name, number in self._scalars(values).items():
            self._withdraw(self._unnamed.name_value(name, values[name], number, self._sink.clock.step))

    # --- inside -------------------------------------------------------------------------------------------

    def _hear(self, read: Read, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        begun = time.perf_counter_ns()
        values = read(*args, **kwargs)
        self.name_values(values)
        found = self._scalars(values)
        told = {name: value for name, value in found.items() if not self._is_passed_on(name, value)}
        if told:
            self._sink.log(told, COLLECTION)
        if self._sink.cost.loop_ns:
            self._sink.cost.own_ns += time.perf_counter_ns() - begun

    def _scalars(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: scalar(value) for name, value in values.items()}
        return {
            name: self._number(value) if is_on_host(value) else value
            for name, value in found.items()
            if value is not None
        }

    def _is_quiet(self) -> bool:
        return None in self._local.passed_on

    def _is_passed_on(self, name: str, value: Any) -> bool:
        if self._is_quiet():
            return True
        return any(
            name in passed_on or any(_is_one(each, value) for each in self._scalars(passed_on).values())
            for passed_on in self._local.passed_on
            if passed_on is not None
        )

    def _withdraw(self, names: list[str]) -> None:
        for name in names:
            self._sink.withdraw(name, COLLECTION)


def _is_one(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return is_same(one, other)
    return one is other


def _gave(metric: Any, value: Any) -> bool:
    """Whether a value is the object that a metric keeps as the one that it gave last."""
    kept = vars(metric)
    return value is not None and (value is kept.get("_forward_cache") or value is kept.get("_computed"))
