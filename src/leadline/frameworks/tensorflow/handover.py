"""Whether a step shows that the training of the owner of the steps is over."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
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
        self._phase: Any = None
        self._is_used: bool | None = None
        """Whether a tape has read a variable of the owner since its last step; None: no gradients were computed."""

    def follow(self, owner: Any, phase: Any) -> None:
        """Note that the owner of the steps has made one.

        Args:
            phase: The call of ``fit`` that it belongs to; None: to none.
        """
        if self._owner is None or self._owner() is not owner:
            self._owner = weakref.ref(owner)
        self._phase, self._is_used = phase, None

    def note_tape(self, tape: Any) -> None:
        """Note that gradients are computed outside of functions."""
        ends = self._ends()
        if ends and not self._is_used:
            self._is_used = not ends.isdisjoint(_identities(tape.watched_variables()))

    def is_over(self, owner: Any, phase: Any, function: Any) -> bool:
        """Return whether the step that ends shows it.

        Args:
            owner: Whose step it is.
            phase: The call of ``fit`` that it belongs to; None: to none.
            function: The function that has made it; None: it was made outside of functions.
        """
        if phase is not None:
            return phase is not self._phase
        ends = self._ends()
        if not ends:
            return False
        is_used = self._is_used
        if function is not None:
            concrete = function._list_all_concrete_functions()
            is_used = any(not ends.isdisjoint(_identities(each.graph.variables)) for each in concrete)
        return is_used is False or not ends.isdisjoint(_identities(self._trained_by(owner)))

    def _ends(self) -> set[int]:
        """Return the identities of the first and the last variable that the owner trains."""
        owner = self._owner() if self._owner is not None else None
        trained: Sequence[Any] = list(self._trained_by(owner)) if owner is not None else ()
        return _identities((*trained[:1], *trained[-1:]))


def _identities(variables: Iterable[Any]) -> set[int]:
    """Return the identities of variables: of what Keras wraps, and of all copies of one that has several."""
    found = [getattr(variable, "_value", variable) for variable in variables]
    return {id(variable) for outer in found for variable in (outer, *getattr(outer, "values", ()))}
