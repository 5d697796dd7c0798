"""Whether a step shows that the training of the owner of the steps is over."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class VariableHandover:
    """The owner of the steps, and whether the latest step of another one shows that its training is over.

    It is if that step belongs to another call of ``fit``. Elsewhere, if it does not use the variables of the owner, or
    trains them: a discriminator is used by the steps of its generator, which do not train it.

    Args:
        trained_by: Returns the variables that an owner trains.
    """

    def __init__(self, trained_by: Callable[[Any], Iterable[Any]]) -> None:
        self._trained_by = trained_by
        self._owner: weakref.ref[Any] | None = None
        self._known_ends: frozenset[int] = frozenset()
        """The identities of the first and the last variable that it trains; empty: not known yet."""
        self._phase: int | None = None
        self._is_used: bool | None = None
        """Whether a tape has read a variable of the owner since its last step; None: no gradients were computed."""

    def follow(self, owner: Any, phase: int | None) -> None:
        """Note that the owner of the steps has made one.

        Args:
            phase: The number of the call of ``fit`` that it belongs to; None: to none.
        """
        if self._owner is None or self._owner() is not owner:
            self._owner, self._known_ends = weakref.ref(owner), frozenset()
        self._phase, self._is_used = phase, None

    def note_tape(self, tape: Any) -> None:
        """Note that gradients are computed outside of functions."""
        ends = self._ends()
        if ends and not self._is_used:
            self._is_used = any(identity in ends for identity in _identities(tape.watched_variables()))

    def is_over(self, owner: Any, phase: int | None, function: Any) -> bool:
        """Return whether the step that ends shows it.

        Args:
            owner: Whose step it is.
            phase: The number of the call of ``fit`` that it belongs to; None: to none.
            function: The function that has made it; None: it was made outside of functions.
        """
        if phase is not None:
            return phase != self._phase
        ends = self._ends()
        if not ends:
            return False
        is_used = self._is_used
        if function is not None:
            concrete = function._list_all_concrete_functions()
            is_used = any(not ends.isdisjoint(_identities(one.graph.variables)) for one in concrete)
        return is_used is False or not ends.isdisjoint(_identities(self._trained_by(owner)))

    def _ends(self) -> frozenset[int]:
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            return frozenset()
        if not self._known_ends:
            trained = list(self._trained_by(owner))
            self._known_ends = frozenset(_identities((*trained[:1], *trained[-1:])))
        return self._known_ends


def _identities(variables: Iterable[Any]) -> Iterator[int]:
    """Yield the identities of variables: of what Keras wraps, and of all copies of one that has several."""
    for variable in variables:
        inner = getattr(variable, "_value", variable)
        yield id(inner)
        for copy in getattr(inner, "values", ()):
            yield id(copy)
