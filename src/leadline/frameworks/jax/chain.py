"""The chain of a training: the parameters that a step returns are those of the next step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax

from leadline.frameworks.jax.facts import LossPlace
from leadline.frameworks.jax.step_count import count_place, counted_steps

_MIN_LINKS: Final = 10
"""Steps in a row that must have passed on their parameters for a new start to show without a count."""
_MEMORY: Final = 1000
"""Steps of an optimizer beyond which a new state soon has as much: Adam's averages go back that far."""
_MAX_MISSES: Final = 3
"""Steps that are given another count than 0, and not the one that was returned: the script itself changes it."""


@dataclass(slots=True)
class _Link:
    """An array that a step has returned and the next one was given."""

    taken: LossPlace
    """Its place among the arguments."""
    given: LossPlace
    """Its place in the result."""
    left: weakref.ref[Any] | None
    """The array that the last step has returned; None: none is there any more."""

    def holds(self, arguments: Any) -> bool:
        """Return whether a step is given the array that the last one has returned."""
        left = self.left() if self.left is not None else None
        return left is not None and _at(self.taken, arguments) is left

    def follow(self, result: Any) -> None:
        """Remember what a step has returned."""
        array = _at(self.given, result)
        self.left = weakref.ref(array) if isinstance(array, jax.Array) else None


class OptimizerStates:
    """Follows the count of the optimizer's state: where a step is given a new one of 0, its state was made again.

    Attributes:
        made_anew: How often in a row that was so, over parameters as the last step had returned them, after less than a
            thousand steps with the state before.
    """

    def __init__(self) -> None:
        self.made_anew = 0
        self._link: _Link | None = None
        self._taken: LossPlace | None = None
        self._steps = self._misses = 0

    @property
    def is_followed(self) -> bool:
        """Whether the steps pass on a count."""
        return self._link is not None

    def find(self, arguments: Any) -> None:
        """Find the count among the arguments of a step."""
        self._taken = count_place(arguments)

    def is_linked(self, arguments: Any) -> bool:
        """Return whether a step is given the count that the last one has returned, if there is one."""
        return self._link is None or self._link.holds(arguments)

    def begin_step(self, arguments: Any) -> None:
        """Look at the count that a step is given, whose parameters are those that the last one has returned.

        A count that is another array than the one returned is waited for.
        """
        link = self._link
        if link is None or link.holds(arguments):
            self._steps += 1
            return
        count = _at(link.taken, arguments)
        if isinstance(count, jax.Array) and not int(count):
            self.made_anew = self.made_anew + 1 if self._steps < _MEMORY else 0
            self._steps = self._misses = 0
            return
        self._misses += 1
        if self._misses >= _MAX_MISSES:
            self._link = self._taken = None

    def end_step(self, result: Any) -> None:
        """Remember the count that a step has returned."""
        if self._link is not None:
            self._link.follow(result)
        elif self._taken is not None:
            given, taken = count_place(result), self._taken
            self._taken = None
            if given is not None:
                self._link = _Link(taken, given, None)
                self._link.follow(result)


class Chain:
    """Follows two parameters from the result of each step to the arguments of the next: the first and the last one.

    Another training begins with another first parameter, or only another last one where a part of the model is new, if
    the optimizer counts no step yet. A script whose optimizer does not count may change its parameters between steps
    (averages, projections): there they must have been passed on for a while.

    Attributes:
        states: Follows the state of its optimizer.
    """

    def __init__(self) -> None:
        self.states = OptimizerStates()
        self._first: _Link | None = None
        """None: not known yet."""
        self._last: _Link | None = None
        """None: not known, or not passed on at every step."""
        self._results: list[tuple[LossPlace, weakref.ref[Any]]] = []
        """All arrays that the last step has returned, until it is known which of them are passed on."""
        self._links = 0

    @property
    def ends(self) -> list[weakref.ref[Any]]:
        """The first and the last parameter that the last step has returned, as far as they are known."""
        return [link.left for link in (self._first, self._last) if link is not None and link.left is not None]

    def is_linked(self, arguments: Any) -> bool:
        """Return whether a step is given what the last one has returned."""
        return self._is_passed_on(arguments) and self.states.is_linked(arguments)

    def _is_passed_on(self, arguments: Any) -> bool:
        first, last = self._first, self._last
        return first is not None and first.holds(arguments) and (last is None or last.holds(arguments))

    def begins_another(self, arguments: Any) -> bool:
        """Return whether a step begins another training; called before each step that is not deferred."""
        first = self._first
        if first is None:
            self._find(arguments)
            return False
        if first.left is None:
            return False
        if self._is_passed_on(arguments):
            self.states.begin_step(arguments)
            return False
        count = counted_steps(arguments)
        if first.holds(arguments):
            if count != 0:
                self._last = None  # the script itself changes it between steps
            is_new = count == 0
        else:
            is_new = self._is_start(count)
            self._links = 0
        if is_new:
            self.states.made_anew = 0
        return is_new

    def is_start(self, arguments: Any) -> bool:
        """Return whether a step that is not given what the last one has returned begins another training."""
        return self._is_start(counted_steps(arguments))

    def _is_start(self, count: int | None) -> bool:
        return count == 0 or (count is None and self._links >= _MIN_LINKS)

    def end_step(self, result: Any) -> None:
        """Remember what a step has returned."""
        if self._first is None:
            self._results = [(place, weakref.ref(leaf)) for place, leaf in _arrays(result)]
            return
        self.states.end_step(result)
        self._first.follow(result)
        if self._last is not None:
            self._last.follow(result)
        self._links += 1

    def _find(self, arguments: Any) -> None:
        """Find the arrays that the last step has returned among the arguments of this one."""
        returned = {id(array): place for place, reference in self._results if (array := reference()) is not None}
        found = [
            _Link(place, returned[id(leaf)], weakref.ref(leaf))
            for place, leaf in _arrays(arguments)
            if id(leaf) in returned
        ]
        if found:
            first = found[0].taken.path
            holder = first[: _length_of_holder(first)]
            self._first = found[0]
            self._last = [link for link in found if _is_in(link.taken.path, holder, first)][-1]
            self._results = []
            self.states.find(arguments)


def _length_of_holder(path: Sequence[Any]) -> int:
    """Return how much of the path of a parameter leads to what holds the parameters, and not the optimizer's state.

    The path begins with the kind of argument, positional or by name, and the argument; a train state has ``params``.
    """
    length = 2
    for key in path[2:]:
        if not (hasattr(key, "name") or getattr(key, "key", None) == "params"):
            break
        length += 1
    return min(length, len(path) - 1)


def _is_in(path: Sequence[Any], holder: Sequence[Any], first: Sequence[Any]) -> bool:
    """Return whether a parameter has the holder of the first one, which is no optimizer's state of single arrays."""
    is_alone = len(holder) == 1
    return path[: len(holder)] == holder and (not is_alone or len(path) == len(first))


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
