"""Where everything that libraries were told arrives: made one scalar each, and handed to the recorder."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from leadline.frameworks.loggers.naming import Names
from leadline.frameworks.loggers.replacement import Make
from leadline.frameworks.loggers.values import is_on_host, is_same, scalar
from leadline.probes.clock import StepClock
from leadline.probes.guard import Guard

COLLECTION: Final = "metrics"
_RECENT: Final = 64
_ENOUGH: Final = 3
"""So many different values of one source were logged under a name, and it is clear that they always are."""

Read = Callable[..., Mapping[str, Any]]
"""Takes the arguments of a function that was called; gives what they log, by name."""


class Sink(Protocol):
    """What the tap needs of the recorder."""

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        """Keep scalars for the step under way."""

    def withdraw(self, name: str, collection: str) -> None:
        """Forget a scalar of the step under way."""

    @property
    def clock(self) -> StepClock:
        """Tells which step is under way."""


@dataclass(slots=True)
class _Source:
    """An object whose values come without a name."""

    owner: weakref.ref[Any]
    logged: set[float] = field(default_factory=set)
    """Its values that were logged under some name."""
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class _Unnamed:
    step: int
    name: str
    value: Any
    source: _Source


class _Local(threading.local):
    def __init__(self) -> None:
        self.passed_on: list[Mapping[str, Any] | None] = []
        """What the calls under way pass on to other libraries; None: they pass on nothing new."""


class Tap:
    """Listens.

    **One scalar** - what a library passes on to another, and a metric's own value that is logged under a name, are
    kept once.
    """

    def __init__(self, sink: Sink, guard: Guard, number: Callable[[Any], float]) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
        """
        self.guard = guard
        self.names = Names()
        """Of the objects that nobody named."""
        self._sink, self._number = sink, number
        self._local = _Local()
        self._sources: dict[int, _Source] = {}
        self._recent: deque[_Unnamed] = deque(maxlen=_RECENT)

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
        """Tell values that nobody has named yet; where they are logged under a name soon, that name holds."""
        found = self._scalars(values)
        source, step = self._source(owner), self._sink.clock.step
        self._recent.extend(_Unnamed(step, name, value, source) for name, value in found.items())
        self._sink.log(found, COLLECTION)

    def is_named(self, owner: Any) -> bool:
        """Whether what an object gives is logged under a name anyway."""
        return self._source(owner).is_named

    def name_owner(self, owner: Any) -> None:
        """An object itself is logged under a name: what it gives needs no other."""
        source = self._source(owner)
        source.is_named = True
        for each in [each for each in self._recent if each.source is source]:
            self._withdraw(each)

    def name_values(self, values: Mapping[str, Any]) -> None:
        """Values are logged under names."""
        step = self._sink.clock.step
        for value in self._scalars(values).values() if self._recent else ():
            for each in [each for each in self._recent if each.step >= step - 1 and _is_one(each.value, value)]:
                self._withdraw(each)
                each.source.logged.add(value if isinstance(value, float) else float(step))
                each.source.is_named |= len(each.source.logged) >= _ENOUGH

    # --- inside -------------------------------------------------------------------------------------------

    def _hear(self, read: Read, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        found = self._scalars(read(*args, **kwargs))
        self.name_values(found)
        told = {name: value for name, value in found.items() if not self._is_passed_on(name, value)}
        if told:
            self._sink.log(told, COLLECTION)

    def _scalars(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = {str(name): scalar(value) for name, value in values.items()}
        return {
            name: self._number(value) if is_on_host(value) else value
            for name, value in found.items()
            if value is not None
        }

    def _is_passed_on(self, name: str, value: Any) -> bool:
        for passed_on in self._local.passed_on:
            if passed_on is None or name in passed_on:
                return True
            if any(_is_one(each, value) for each in self._scalars(passed_on).values()):
                return True
        return False

    def _source(self, owner: Any) -> _Source:
        known = self._sources.get(id(owner))
        if known is None or known.owner() is not owner:
            self._sources = {key: each for key, each in self._sources.items() if each.owner() is not None}
            known = self._sources[id(owner)] = _Source(weakref.ref(owner))
        return known

    def _withdraw(self, unnamed: _Unnamed) -> None:
        self._recent.remove(unnamed)
        if unnamed.step == self._sink.clock.step:
            self._sink.withdraw(unnamed.name, COLLECTION)


def _is_one(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return is_same(one, other)
    return one is other
