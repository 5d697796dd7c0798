"""Indices at or beyond the length of the table of parameters that they look up rows of, which JAX clamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.extend.core import primitives

from leadline.frameworks.jax.program_graph import Node, ProgramGraph
from leadline.frameworks.jax.tap import named_leaves, tap_p
from leadline.records.names import CLAMPED_INDICES

_SAME: Final = frozenset(
    {"convert_element_type", "copy", "copy_p", "name", "pcast", "pvary", "reduce_precision", "sharding_constraint"}
    | {"stop_gradient", "optimization_barrier"}
)
"""Primitives that keep a value, and its shape."""
_COMPARISONS: Final = (primitives.lt_p, primitives.le_p, primitives.gt_p, primitives.ge_p, primitives.eq_p)
_PROMISED: Final = "PROMISE_IN_BOUNDS"
"""The mode of a gather that was given none: out of bounds it returns the last row."""
_MIN_DIFFERENT: Final = 2
"""A single index beyond the table may stand for padding, whose row is masked later."""
_MAX_ELEMENTS: Final = 1 << 20

Array = np.ndarray[Any, Any]


class _Lookup(NamedTuple):
    """A look-up of rows of one input of a program by another one."""

    table: int
    indices: int
    """Their positions among the inputs."""
    views: tuple[Any, ...]
    """The equations that take the indices from their input, the first one first."""
    length: int


class TableIndices:
    """The look-ups in a program whose tables and indices are inputs.

    Indices that the program itself compares with anything but 0 are left out: it may mask what is beyond.

    Args:
        jaxpr: The program, as JAX has traced it.
    """

    def __init__(self, jaxpr: Any) -> None:
        self._lookups = _lookups(jaxpr)

    def checks(self, arguments: Sequence[Any], leaves: Sequence[Any]) -> dict[str, float]:
        """Return the checks of the first look-up at which several different indices are clamped; empty: there is none.

        Args:
            arguments: What the function is given.
            leaves: The arrays in them, as the program is given them.
        """
        for lookup in self._lookups:
            given = leaves[lookup.indices]
            if np.size(given) > _MAX_ELEMENTS:
                continue
            with jax.transfer_guard_device_to_host("allow"):
                indices = _seen(np.asarray(given), lookup.views)
            beyond = indices[indices >= lookup.length]
            different = len(np.unique(beyond))
            if different >= _MIN_DIFFERENT:
                trees = map(named_leaves, arguments)
                names = [name for tree in trees for name, leaf in tree if leaf is leaves[lookup.table]]
                table = names[0] if names else f"input {lookup.table}"
                numbers = (beyond.size / indices.size, different, int(beyond.max()), lookup.length)
                return {f"{table}/{check}": float(n) for check, n in zip(CLAMPED_INDICES, numbers, strict=True)}
        return {}


def _lookups(jaxpr: Any) -> list[_Lookup]:
    graph = ProgramGraph(jaxpr)
    compared = set(_compared(graph))
    found: dict[tuple[int, int, str], _Lookup] = {}
    for table, equation in graph.equations(primitives.gather_p):
        dimensions = equation.params["dimension_numbers"]
        mapped = dimensions.start_index_map
        if equation.params["mode"].name != _PROMISED or len(mapped) != 1 or dimensions.operand_batching_dims:
            continue
        source, views = _source(graph, table, are_indices=False) or (-1, [])
        indices, taken = _source(graph, table.of(equation.invars[1]), are_indices=True) or (-1, [])
        is_table = source >= 0 and not views and np.issubdtype(table.variable.aval.dtype, np.floating)
        if is_table and indices >= 0 and indices not in compared:
            length = table.variable.aval.shape[mapped[0]]
            part = str([(view.primitive, view.params) for view in taken])
            found.setdefault((source, indices, part), _Lookup(source, indices, tuple(reversed(taken)), length))
    return list(found.values())


def _compared(graph: ProgramGraph) -> Iterator[int]:
    """Yield the inputs of a program that it compares with anything but 0."""
    for primitive in _COMPARISONS:
        for first, equation in graph.equations(primitive):
            sides = (first, first.of(equation.invars[1]))
            for one, other in (sides, sides[::-1]):
                source = _source(graph, one, are_indices=True)
                if source is not None and graph.number_of(other) != 0:
                    yield source[0]


def _source(graph: ProgramGraph, node: Node, *, are_indices: bool) -> tuple[int, list[Any]] | None:
    """Return the input that a value is, or a part of, and the equations that take the part; None: it is computed.

    Args:
        are_indices: Whether a value may be a part of an input, and may have the length of a table added where it is
            negative.
    """
    taken: list[Any] = []
    while (equation := (reached := graph.computed(node)).equation) is not None:
        name, node = equation.primitive.name, reached.node
        if equation.primitive is tap_p or name in _SAME:
            node = node.of(equation.invars[equation.outvars.index(node.variable)])
        elif are_indices and name in _VIEWS:
            taken.append(equation)
            node = node.of(equation.invars[0])
        elif are_indices and name == "select_n" and _is_below_zero(graph, node.of(equation.invars[0])):
            node = node.of(equation.invars[1])
        else:
            return None
    return (reached.position, taken) if reached.position is not None else None


def _is_below_zero(graph: ProgramGraph, condition: Node) -> bool:
    reached = graph.computed(condition)
    equation = reached.equation
    return (
        equation is not None
        and equation.primitive is primitives.lt_p
        and graph.number_of(reached.node.of(equation.invars[1])) == 0
    )


def _broadcast(value: Array, params: dict[str, Any]) -> Array:
    shape, places = params["shape"], params["broadcast_dimensions"]
    spread = np.reshape(value, [value.shape[places.index(at)] if at in places else 1 for at in range(len(shape))])
    return np.broadcast_to(spread, shape)


def _slice(value: Array, params: dict[str, Any]) -> Array:
    starts, limits = params["start_indices"], params["limit_indices"]
    strides = params["strides"] or (1,) * len(starts)
    return value[tuple(slice(*bounds) for bounds in zip(starts, limits, strides, strict=True))]


_VIEWS: Final[dict[str, Callable[[Array, dict[str, Any]], Array]]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda value, params: np.reshape(value, params["new_sizes"]),
    "slice": _slice,
    "squeeze": lambda value, params: np.squeeze(value, params["dimensions"]),
    "transpose": lambda value, params: np.transpose(value, params["permutation"]),
}
"""Primitives that take a part of a value, or arrange it differently, and the same in NumPy."""


def _seen(value: Array, views: Sequence[Any]) -> Array:
    for equation in views:
        value = _VIEWS[equation.primitive.name](value, equation.params)
    return value
