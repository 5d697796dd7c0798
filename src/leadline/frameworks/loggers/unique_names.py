"""Unique names for objects without a name; a repeated name gets a number."""

from __future__ import annotations

import weakref
from typing import Any


class UniqueNames:
    """Assigns unique names; objects are referenced weakly, and a name is free again when its object is gone."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def find(self, owner: Any) -> str | None:
        """Return the name of an object."""
        known = self._known.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None

    def give(self, owner: Any, wanted: str) -> str:
        """Name an object, unless it already has the wanted name, with or without a number."""
        name = self.find(owner)
        if name is not None and _is_numbered(name, wanted):
            return name
        self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
        used = {used_name for _, used_name in self._known.values()}
        name, number = wanted, 0
        while name in used:
            number += 1
            name = f"{wanted}_{number}"
        self._known[id(owner)] = (weakref.ref(owner), name)
        return name


def _is_numbered(name: str, wanted: str) -> bool:
    return name == wanted or (name.startswith(f"{wanted}_") and name[len(wanted) + 1 :].isdigit())
