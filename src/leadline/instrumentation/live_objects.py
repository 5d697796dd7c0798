"""The objects alive of some classes, found without a trace in other threads."""

from __future__ import annotations

import gc
from itertools import chain
from typing import Any


def live_instances(kind: type) -> list[Any]:
    """Return all objects alive of a class written in Python, and of what is derived from it.

    A thread that builds a tuple fails while anybody refers to it, as a list from ``gc.get_objects`` does. So no other
    thread may run as long as there is such a list: the types that occur are collected in one call of C, without any
    audited function, and then the objects that refer to them, as each object of a Python class refers to its class.
    """
    types = list(map(type, chain.from_iterable(map(gc.get_objects, (None,)))))
    occurring = {id(one) for one in _without_repeats(types)}
    known = {key: subclass for key, subclass in subclasses(kind).items() if key in occurring}
    # type() rather than isinstance, which would run the __class__ property of third-party proxies
    return [candidate for candidate in gc.get_referrers(*known.values()) if id(type(candidate)) in known]


def _without_repeats(types: list[type]) -> set[type] | list[type]:
    try:
        return set(types)
    except TypeError:  # a metaclass defines equality, and no hash
        return types


def subclasses(kind: type) -> dict[int, type]:
    """Return a class and everything derived from it, by id."""
    found: dict[int, type] = {}
    pending: list[type] = [kind]
    while pending:
        subclass = pending.pop()
        if id(subclass) not in found:
            found[id(subclass)] = subclass
            pending += type.__subclasses__(subclass)
    return found
