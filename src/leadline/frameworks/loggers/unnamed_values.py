"""Values that nobody has given a name, and whether they are logged under one after all."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.frameworks.loggers.values import is_same

_RECENT: Final = 256
_ENOUGH: Final = 3
"""So many different numbers of one source were logged under one name, and it is clear that they always are."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Source:
    """An object whose values come without a name."""

    owner: weakref.ref[Any]
    logged: set[float] = field(default_factory=set)
    """Its numbers that were logged under its name."""
    is_named: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    step: int
    name: str
    value: Any
    source: _Source


class UnnamedValues:
    """Finds out which sources are logged under which names.

    A value that is logged as the very object that a source gave is its. A number is its where the same number came
    from it in this step or the one before, unless the name once had another number than the source then, or several
    sources gave that number.

    Args:
        gives: Whether an owner's latest values are that object.
    """

    def __init__(self, gives: Callable[[Any, Any], bool]) -> None:
        self._gives = gives
        self._sources: dict[int, _Source] = {}
        self._recent: deque[_Value] = deque(maxlen=_RECENT)
        self._partners: dict[str, _Source] = {}
        self._others: dict[str, weakref.WeakSet[_Source]] = {}

    def add(self, owner: Any, values: Mapping[str, Any], step: int) -> None:
        """An owner gave values."""
        source = self._source(owner)
        self._recent.extend(_Value(step, name, value, source) for name, value in values.items())

    def is_named(self, owner: Any) -> bool:
        """Whether what an owner gives is logged under a name anyway."""
        return bool(self._sources) and self._source(owner).is_named

    def name_owner(self, owner: Any, step: int) -> list[str]:
        """An owner itself is logged: what it gave in this step, by its own names, which is not needed."""
        return self._name(self._source(owner), step)

    def name_value(self, name: str, logged: Any, number: Any, step: int) -> list[str]:
        """A value is logged under a name: what is not needed of this step.

        Args:
            logged: The value as the script gave it.
            number: It as a float, or as the tensor that it is.
        """
        recent = [each for each in self._recent if each.step >= step - 1]
        sources = list(dict.fromkeys(each.source for each in recent))
        for source in sources:
            owner = source.owner()
            if owner is not None and self._gives(owner, logged):
                return self._name(source, step)
        if not sources or not isinstance(number, float):
            return []
        alike = [each for each in recent if isinstance(each.value, float) and is_same(each.value, number)]
        partner = self._partner(name, sources, list(dict.fromkeys(each.source for each in alike)))
        if partner is None:
            return []
        partner.logged.add(number)
        if len(partner.logged) >= _ENOUGH:
            return self._name(partner, step)
        return self._drop([each for each in alike if each.source is partner], step)

    def _partner(self, name: str, sources: Iterable[_Source], alike: Iterable[_Source]) -> _Source | None:
        """The source that is logged under a name, as far as that is known."""
        others = self._others.setdefault(name, weakref.WeakSet())
        for each in sources:
            if each not in alike:
                others.add(each)
        possible = [each for each in alike if each not in others]
        partner = self._partners.get(name)
        if partner not in possible:
            partner = possible[0] if len(possible) == 1 else None
        if partner is not None:
            self._partners[name] = partner
        return partner

    def _name(self, source: _Source, step: int) -> list[str]:
        source.is_named = True
        return self._drop([each for each in self._recent if each.source is source], step)

    def _drop(self, values: Iterable[_Value], step: int) -> list[str]:
        dropped = list(values)
        for each in dropped:
            self._recent.remove(each)
        return [each.name for each in dropped if each.step == step]

    def _source(self, owner: Any) -> _Source:
        known = self._sources.get(id(owner))
        if known is None or known.owner() is not owner:
            self._sources = {key: each for key, each in self._sources.items() if each.owner() is not None}
            known = self._sources[id(owner)] = _Source(weakref.ref(owner))
        return known
