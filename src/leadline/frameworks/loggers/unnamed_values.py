"""Matching of values that were recorded without a name with the names under which the script logs them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.frameworks.loggers.values import is_same

_RECENT: Final = 256
_CONFIRMATIONS: Final = 3
"""Number of different values of one source under one name after which they are taken to be always logged."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Source:
    """An object whose values have no name."""

    owner: weakref.ref[Any]
    logged: set[float] = field(default_factory=set)
    """Its values that were logged under its name."""
    is_named: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    step: int
    name: str
    value: Any
    source: _Source


class UnnamedValues:
    """Finds out which sources are logged under which names.

    A logged object belongs to the source that returned this very object. A number belongs to a source that returned
    the same number in this step or the one before, unless the name had another number than the source before, or
    several sources returned that number.

    Args:
        is_value_of: Returns whether an object is an owner's latest value.
    """

    def __init__(self, is_value_of: Callable[[Any, Any], bool]) -> None:
        self._is_value_of = is_value_of
        self._sources: dict[int, _Source] = {}
        self._recent: deque[_Value] = deque(maxlen=_RECENT)
        self._partners: dict[str, _Source] = {}
        self._excluded: dict[str, weakref.WeakSet[_Source]] = {}

    def add(self, owner: Any, values: Mapping[str, Any], step: int) -> None:
        """Add values that an owner returned."""
        source = self._source(owner)
        self._recent.extend(_Value(step, name, value, source) for name, value in values.items())

    def is_named(self, owner: Any) -> bool:
        """Return whether the values of an owner are always logged under a name."""
        return bool(self._sources) and self._source(owner).is_named

    def name_owner(self, owner: Any, step: int) -> list[str]:
        """Note that an owner itself is logged; return the names of its values in this step, which are redundant."""
        return self._name(self._source(owner), step)

    def name_value(self, name: str, logged: Any, number: Any, step: int) -> list[str]:
        """Note that a value is logged under a name; return the names in this step that are redundant.

        Args:
            logged: The value as the script passed it.
            number: The value as a float, or as a tensor.
        """
        recent = [recorded for recorded in self._recent if recorded.step >= step - 1]
        sources = list(dict.fromkeys(recorded.source for recorded in recent))
        for source in sources:
            owner = source.owner()
            if owner is not None and self._is_value_of(owner, logged):
                return self._name(source, step)
        if not sources or not isinstance(number, float):
            return []
        equal = [
            recorded for recorded in recent if isinstance(recorded.value, float) and is_same(recorded.value, number)
        ]
        partner = self._partner(name, sources, list(dict.fromkeys(recorded.source for recorded in equal)))
        if partner is None:
            return []
        partner.logged.add(number)
        if len(partner.logged) >= _CONFIRMATIONS:
            return self._name(partner, step)
        return self._drop([recorded for recorded in equal if recorded.source is partner], step)

    def _partner(self, name: str, sources: Iterable[_Source], equal: Iterable[_Source]) -> _Source | None:
        """Return the source that is logged under a name, if it is known."""
        excluded = self._excluded.setdefault(name, weakref.WeakSet())
        for source in sources:
            if source not in equal:
                excluded.add(source)
        candidates = [candidate for candidate in equal if candidate not in excluded]
        partner = self._partners.get(name)
        if partner not in candidates:
            partner = candidates[0] if len(candidates) == 1 else None
        if partner is not None:
            self._partners[name] = partner
        return partner

    def _name(self, source: _Source, step: int) -> list[str]:
        source.is_named = True
        return self._drop([recorded for recorded in self._recent if recorded.source is source], step)

    def _drop(self, values: Iterable[_Value], step: int) -> list[str]:
        dropped = list(values)
        for recorded in dropped:
            self._recent.remove(recorded)
        return [recorded.name for recorded in dropped if recorded.step == step]

    def _source(self, owner: Any) -> _Source:
        known = self._sources.get(id(owner))
        if known is None or known.owner() is not owner:
            self._sources = {
                key: known_source for key, known_source in self._sources.items() if known_source.owner() is not None
            }
            known = self._sources[id(owner)] = _Source(weakref.ref(owner))
        return known
