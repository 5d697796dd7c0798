"""What objects without a name of their own are called: by a wanted name, the second of it with a number."""

from __future__ import annotations

import weakref
from typing import Any


class UniqueNames:
    """Holds the objects weakly: a name is free again when its object is gone."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def find(self, owner: Any) -> str | None:
        """The name that an object was given."""
        known = self._known.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None

    def give(self, owner: Any, wanted: str) -> str:
        """Name an object, unless its name is that one, or that one with a number, already."""
        name = self.find(owner)
        if name is not None and _is_numbered(name, wanted):
            return name
        self._known = {key: each for key, each in self._known.items() if each[0]() is not None}
        taken = {each for _, each in self._known.values()}
        name, number = wanted, 0
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        self._known[id(owner)] = (weakref.ref(owner), name)
        return name


def _is_numbered(name: str, wanted: str) -> bool:
    return name == wanted or (name.startswith(f"{wanted}_") and name[len(wanted) + 1 :].isdigit())
