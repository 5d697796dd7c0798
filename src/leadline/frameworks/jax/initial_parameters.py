"""Functions that are given the current parameters of a training, and use those that it began with instead."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

import jax

from leadline.frameworks.jax.chain import Chain
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.replay import Programs
from leadline.records.names import USES_INITIAL_PARAMETERS

_MAX_LOOKS: Final = 256
"""Calls before the first train step that are looked at again later."""


class InitialParameters:
    """Compares what compiled functions take with them as constants with what the first train step was given.

    A function that computes with the first values of a parameter on purpose, such as a reference model, is not given
    their current values, or uses them too.

    Attributes:
        checks: What was found, as checks.
    """

    def __init__(self) -> None:
        self.checks: dict[str, float] = {}
        self._chain: Chain | None = None
        self._first: dict[int, weakref.ref[Any]] = {}
        """The arrays that the first train step was given, by their identities."""
        self._looks = 0

    @property
    def is_settled(self) -> bool:
        """Whether calls need not be looked at again."""
        return self._looks >= _MAX_LOOKS or (self._chain is not None and bool(self._chain.ends))

    def follow(self, chain: Chain, arguments: Any) -> None:
        """Follow the parameters of a training whose next step begins; called before each that is recorded at once."""
        if self._chain is None:
            leaves = jax.tree_util.tree_leaves(arguments)
            self._first = {id(leaf): weakref.ref(leaf) for leaf in leaves if isinstance(leaf, jax.Array) and leaf.ndim}
        self._chain = chain

    def look(self, function: JitWrapper, programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look at the call of a function that computes no gradients."""
        self._looks += 1
        if self._chain is None:
            return
        closed = programs.traced.jaxpr
        initial = [array for array in closed.consts if self._is_of_first_step(array)]
        leaves = function.leaves(args, kwargs) if initial else []
        current = [array for reference in self._chain.ends if (array := reference()) is not None]
        unused = _unused(closed.jaxpr, leaves) if len(leaves) == len(closed.jaxpr.invars) else []
        shapes = {array.shape for array in initial}
        if any(given is array and array.shape in shapes for given in unused for array in current):
            self.checks[f"{function.__name__}/{USES_INITIAL_PARAMETERS}"] = float(len(initial))

    def _is_of_first_step(self, array: Any) -> bool:
        reference = self._first.get(id(array))
        return reference is not None and reference() is array


def _unused(jaxpr: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the arguments that a program does not use."""
    used = {id(variable) for equation in jaxpr.eqns for variable in equation.invars} | set(map(id, jaxpr.outvars))
    return [leaf for variable, leaf in zip(jaxpr.invars, leaves, strict=True) if id(variable) not in used]
