"""The chain of a training: the parameters that a step returns are those of the next step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

import jax

from leadline.frameworks.jax.facts import LossPlace
from leadline.frameworks.jax.step_count import counted_steps

_MIN_LINKS: Final = 10
"""Steps in a row that must have passed on their parameters for a new start to show without a count."""


class Chain:
    """Follows one array of the parameters from the result of each step to the arguments of the next.

    Another training begins with parameters that are no result of the last step, if the optimizer counts no step yet.
    A script whose optimizer does not count may change its parameters between steps (averages, projections): there
    they must have been passed on for a while.
    """

    def __init__(self) -> None:
        self._taken: LossPlace | None = None
        """The place of the array among the arguments; None: not known yet."""
        self._given: LossPlace | None = None
        """Its place in the result."""
        self._left: weakref.ref[Any] | None = None
        """The array that the last step has returned."""
        self._results: list[tuple[LossPlace, weakref.ref[Any]]] = []
        """All arrays that it has returned, until the place is known."""
        self._links = 0

    def is_linked(self, arguments: Any) -> bool:
        """Return whether the parameters of a step are those that the last one has returned."""
        left = self._left() if self._left is not None else None
        return left is not None and self._taken is not None and _at(self._taken, arguments) is left

    def begins_another(self, arguments: Any) -> bool:
        """Return whether a step begins another training; called before each step that is not deferred."""
        if self._taken is None:
            self._find(arguments)
            return False
        if self._left is None or self.is_linked(arguments):
            return False
        count = counted_steps(arguments)
        is_new = count == 0 or (count is None and self._links >= _MIN_LINKS)
        self._links = 0
        return is_new

    def end_step(self, result: Any) -> None:
        """Remember what a step has returned."""
        if self._given is not None:
            array = _at(self._given, result)
            self._left = weakref.ref(array) if isinstance(array, jax.Array) else None
            self._links += 1
        else:
            self._results = [(place, weakref.ref(leaf)) for place, leaf in _arrays(result)]

    def _find(self, arguments: Any) -> None:
        """Find an array that the last step has returned among the arguments of this one."""
        returned = {id(array): place for place, reference in self._results if (array := reference()) is not None}
        for place, leaf in _arrays(arguments):
            if id(leaf) in returned:
                self._taken, self._given, self._left = place, returned[id(leaf)], weakref.ref(leaf)
                self._results = []
                return


def _arrays(tree: Any) -> Sequence[tuple[LossPlace, Any]]:
    """Return the arrays of a tree that may be parameters, with their places."""
    leaves = enumerate(jax.tree_util.tree_flatten_with_path(tree)[0])
    return [
        (LossPlace(tuple(path), at), leaf)
        for at, (path, leaf) in leaves
        if isinstance(leaf, jax.Array) and leaf.ndim and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    ]


def _at(place: LossPlace, tree: Any) -> Any:
    """Return what is at a place of a tree; None: the tree has no such place."""
    try:
        return place.find(tree)
    except (AttributeError, LookupError, TypeError):
        return None
