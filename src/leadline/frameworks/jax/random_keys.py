"""Where the random numbers of a train step come from: the inputs of its program that their keys are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from leadline.frameworks.jax import compatibility
from leadline.records.names import SAME_RANDOM_KEYS

_DRAWS: Final = frozenset({"random_bits", "random_gamma", "rng_bit_generator", "threefry2x32"})
_MAX_ELEMENTS: Final = 1024
"""Larger inputs are data, which differ from step to step."""
_DROPOUT: Final = "dropout_output"


class _Dependencies:
    """Follows a program from its inputs to what draws random numbers; sets of inputs are bits of an integer.

    Attributes:
        draws: The inputs that the keys of all draws depend on, possibly with others; None: nothing is drawn.
    """

    def __init__(self) -> None:
        self.draws: int | None = None

    def follow(self, jaxpr: Any, given: Sequence[int]) -> list[int]:
        """Return what the results of a program depend on, given what its arguments depend on."""
        known = dict(zip(jaxpr.invars, given, strict=True))

        def of(variable: Any) -> int:
            return 0 if hasattr(variable, "val") else known.get(variable, 0)

        for equation in jaxpr.eqns:
            operands = list(map(of, equation.invars))
            results = self._equation(equation, operands)
            known.update(zip(equation.outvars, results, strict=True))
        return list(map(of, jaxpr.outvars))

    def _equation(self, equation: Any, operands: Sequence[int]) -> Sequence[int]:
        name, union = equation.primitive.name, 0
        for operand in operands:
            union |= operand
        if name in _DRAWS:
            self.draws = (self.draws or 0) | (operands[0] if name == "random_bits" else union)
        elif name in compatibility.BODIES:
            body = compatibility.program_of(equation.params[compatibility.BODIES[name]])[0]
            if len(body.invars) == len(operands):
                return self.follow(body, operands)
        for body in compatibility.bodies_of(equation):  # a loop or branch: all of it may depend on all that it is given
            self.follow(body, [union] * len(body.invars))
        return [union] * len(equation.outvars)


def inputs_of_keys(jaxpr: Any) -> list[int] | None:
    """Return the positions of the inputs that the random numbers of a program are drawn by; None: it draws none."""
    dependencies = _Dependencies()
    dependencies.follow(jaxpr, [1 << at for at in range(len(jaxpr.invars))])
    draws = dependencies.draws
    return None if draws is None else [at for at in range(len(jaxpr.invars)) if draws >> at & 1]


class RandomKeys:
    """Compares what the random numbers of a function are drawn by at the steps at which checks are captured."""

    def __init__(self, name: str, jaxpr: Any, collections: frozenset[str]) -> None:
        """
        Args:
            name: That of the function.
            jaxpr: Its program.
            collections: Those of its layers.
        """
        self._name = name
        self._positions = inputs_of_keys(jaxpr)
        if self._positions == [] and _DROPOUT not in collections:
            self._positions = None  # what is drawn is a part of the program, such as a fixed projection
        self._first: list[bytes] | None = None
        self._steps = 0

    def checks(self, leaves: Sequence[Any]) -> dict[str, float]:
        """Return the check of a step; empty: it draws nothing, or nothing that can be compared.

        Args:
            leaves: The arrays among the arguments.
        """
        if self._positions is None:
            return {}
        used = [leaves[at] for at in self._positions]
        if any(np.size(array) > _MAX_ELEMENTS for array in used):
            self._positions = None
            return {}
        now = [_bytes_of(array) for array in used]
        if self._first is None:
            self._first = now
        self._steps = self._steps + 1 if now == self._first and self._steps >= 0 else -1
        return {f"{self._name}/{SAME_RANDOM_KEYS}": float(max(self._steps, 0))}


def _bytes_of(array: Any) -> bytes:
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    with jax.transfer_guard_device_to_host("allow"):
        return np.asarray(array).tobytes()
