"""The graph of a traced program, from its values back to what they are computed from, through the programs in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.tap import tap_p

_SAME: Final = frozenset(
    {"broadcast_in_dim", "convert_element_type", "copy", "copy_p", "gather", "name", "pcast", "pvary"}
    | {"reduce_precision", "reshape", "rev", "sharding_constraint", "slice", "squeeze", "stop_gradient", "transpose"}
)
"""Primitives that keep the values of their first operand, or some of them."""
_MAX_EQUATIONS: Final = 256


class _Scope:
    """A program, and the equation that calls it.

    Args:
        parent: The program with that equation; None: it is the whole program.
    """

    def __init__(self, jaxpr: Any, parent: _Scope | None, equation: Any) -> None:
        self.jaxpr = jaxpr
        self.parent = parent
        self.equation = equation
        self._producers = {variable: equation for equation in jaxpr.eqns for variable in equation.outvars}
        self._positions = {variable: position for position, variable in enumerate(jaxpr.invars)}

    @property
    def is_call(self) -> bool:
        """Whether another program does nothing but call it."""
        return self.parent is not None and self.equation.primitive.name in compatibility.BODIES

    def input_of(self, variable: Any) -> int | None:
        """Return the position of a value among the inputs of the whole program; None: it is none of them."""
        return self._positions.get(variable) if self.parent is None else None

    def producer(self, variable: Any) -> Any | None:
        """Return the equation that computes a value; None: it is given."""
        return self._producers.get(variable)

    def given(self, variable: Any) -> Node | None:
        """Return the value of the calling program that is given as this one; None: there is none."""
        position = self._positions.get(variable)
        if self.parent is None or position is None:
            return None
        operands = self.equation.invars[1:] if self.equation.primitive.name == "cond" else self.equation.invars
        return Node(self.parent, operands[position]) if len(operands) == len(self.jaxpr.invars) else None


class Node(NamedTuple):
    """A value in a program."""

    scope: _Scope
    variable: Any

    def of(self, variable: Any) -> Node:
        """Return another value of the same program."""
        return Node(self.scope, variable)


class Reached(NamedTuple):
    """Where a value is computed."""

    node: Node
    """The value, in the program with its equation."""
    equation: Any
    """None: it is computed nowhere."""
    position: int | None
    """Its position among the inputs of the whole program, if it is one."""


class ProgramGraph:
    """The graph of a program.

    Args:
        jaxpr: The program, as JAX has traced it.
    """

    def __init__(self, jaxpr: Any) -> None:
        self._root = _Scope(jaxpr, None, None)

    def equations(self, primitive: Any) -> Iterator[tuple[Node, Any]]:
        """Yield the equations of a primitive, also of programs within others, each with its first operand."""
        yield from _equations(self._root, primitive)

    def taps_of(self, node: Node, name: str) -> Iterator[Any]:
        """Yield the equations of the taps of a name in the program of a value."""
        for equation in node.scope.jaxpr.eqns:
            if equation.primitive is tap_p and equation.params["tap"].name == name:
                yield equation

    def back_from(self, node: Node) -> Iterator[tuple[Node, Any]]:
        """Yield taps, which change nothing, on the way from a value to the equation that computes it, and that last.

        Each comes with its own result. What keeps values is passed, as are calls of other programs.
        """
        for _ in range(_MAX_EQUATIONS):
            scope, variable = node
            if _is_literal(variable):
                return
            equation = scope.producer(variable)
            if equation is None:
                given = scope.given(variable)
                if given is None:
                    return
                node = given
                continue
            position = equation.outvars.index(variable)
            name = equation.primitive.name
            if equation.primitive is tap_p:
                yield node, equation
                node = node.of(equation.invars[position])
            elif name in _SAME:
                node = node.of(equation.invars[0])
            elif name == "optimization_barrier":
                node = node.of(equation.invars[position])
            elif name == "clamp":
                node = node.of(equation.invars[1])
            elif name in compatibility.BODIES or name in ("scan", "shard_map"):
                body = compatibility.program_of(equation.params[compatibility.BODIES.get(name, "jaxpr")])[0]
                node = Node(_Scope(body, scope, equation), body.outvars[position])
            else:
                yield node, equation
                return

    def computed(self, node: Node) -> Reached:
        """Return where a value is computed, through calls of other programs, but not out of a loop or branch."""
        while not _is_literal(node.variable):
            scope, variable = node
            equation = scope.producer(variable)
            if equation is None:
                given = scope.given(variable) if scope.is_call else None
                if given is None:
                    return Reached(node, None, scope.input_of(variable))
                node = given
            elif equation.primitive.name in compatibility.BODIES:
                body = compatibility.program_of(equation.params[compatibility.BODIES[equation.primitive.name]])[0]
                node = Node(_Scope(body, scope, equation), body.outvars[equation.outvars.index(variable)])
            else:
                return Reached(node, equation, None)
        return Reached(node, None, None)

    def primitive_of(self, node: Node) -> str:
        """Return the name of the primitive that computes a value; empty: it is given."""
        names = [equation.primitive.name for _, equation in self.back_from(node) if equation.primitive is not tap_p]
        return names[-1] if names else ""

    def is_fixed(self, node: Node) -> bool:
        """Return whether a value is given to the program, as it is: a constant, a parameter, or data."""
        return self.primitive_of(node) == ""

    def number_of(self, node: Node) -> float | None:
        """Return a value that is a number in the program; None: it is none."""
        while not _is_literal(node.variable):
            equation = node.scope.producer(node.variable)
            if equation is None:
                given = node.scope.given(node.variable)
                if given is None:
                    return None
                node = given
            elif equation.primitive.name in _SAME:
                node = node.of(equation.invars[0])
            else:
                return None
        value = node.variable.val
        return float(value) if getattr(value, "shape", ()) == () else None


def _equations(scope: _Scope, primitive: Any) -> Iterator[tuple[Node, Any]]:
    for equation in scope.jaxpr.eqns:
        if equation.primitive is primitive:
            yield Node(scope, equation.invars[0]), equation
        if equation.primitive.name != "while":
            for body in compatibility.bodies_of(equation):
                yield from _equations(_Scope(body, scope, equation), primitive)


def _is_literal(variable: Any) -> bool:
    return hasattr(variable, "val")
