"""Names of variables of TensorFlow and Keras."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Final

from leadline.records.formatting import listed

_MAX_LAYERS: Final = 3
"""Layers outside of a model that stand for it."""


class _Names:
    """The names of variables that are not Keras's: their own, with a number where others alive have the same one."""

    def __init__(self) -> None:
        self._named: dict[str, list[weakref.ref[Any]]] = {}
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def name_of(self, variable: Any) -> str:
        reference, name = self._known.get(id(variable), (None, ""))
        if reference is not None and reference() is variable:
            return name
        own = variable.name.partition(":")[0]
        others = self._named.setdefault(own, [])
        at = next((at for at, other in enumerate(others) if other() is None), len(others))
        others[at : at + 1] = [weakref.ref(variable)]
        name = f"{own}_{at}" if at else own
        self._known[id(variable)] = others[at], name
        return name


_NAMES = _Names()


def name_of(variable: Any) -> str:
    """Return the name of a variable: its path; ``Variable_1`` of the second that has no other name of its own."""
    return str(getattr(variable, "path", None) or _NAMES.name_of(variable))


def model_of(names: Iterable[str]) -> str:
    """Return the model of Keras that some variables are in, by their paths, or their layers; empty: in neither."""
    paths = [name.split("/") for name in names]
    roots = list(dict.fromkeys(path[0] for path in paths if len(path) > 1))
    return listed([*roots[:_MAX_LAYERS], *(["others"] if len(roots) > _MAX_LAYERS else [])])
