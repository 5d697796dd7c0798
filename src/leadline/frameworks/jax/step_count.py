"""The number of steps that a train state or an optimizer has made, those before a checkpoint included."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp

from leadline.frameworks.jax.facts import LossPlace

_COUNTS: Final = ("step", "count")
"""The fields of a train state of Flax, and of the states of optax, in which they count."""
_VALUE: Final = "value"
"""The field of a variable of Flax."""
_FROM_GRAPH: Final = 3
"""The keys from the states of a module of Flax to one of its variables."""
_PARTS_OF_KERAS: Final = 4


def counted_steps(arguments: Any) -> int | None:
    """Return the largest count among the arguments of a call, that of a train state first; None: there is none.

    Called once in a process: a count on a device is waited for.
    """
    of_keras = _count_of_keras(arguments)
    if of_keras is not None:
        return of_keras
    leaves = _counts(arguments)
    for field in _COUNTS:
        counts = [leaf for name, _, leaf in leaves if name == field]
        if counts:
            return max(int(count) for count in counts)
    return None


def count_place(tree: Any) -> LossPlace | None:
    """Return the place of the first count of optax in the arguments or the result of a step, or of a train state."""
    counts = [(name, place) for name, place, leaf in _counts(tree) if isinstance(leaf, jax.Array)]
    return next((place for field in reversed(_COUNTS) for name, place in counts if name == field), None)


def _count_of_keras(arguments: Any) -> int | None:
    """Return the iterations of the optimizer in the state that Keras passes to its training function.

    The state has a list each of trainable variables, of others, of those of the optimizer, whose first one counts, and
    of metrics.

    Returns:
        None: the arguments are not those of Keras.
    """
    state = next(iter(arguments[0]), None) if isinstance(arguments, tuple) and arguments else None
    parts = state if isinstance(state, tuple) and all(isinstance(part, list) for part in state) else ()
    variables = parts[2] if len(parts) == _PARTS_OF_KERAS else ()
    return int(variables[0]) if variables and _is_count(variables[0]) else None


def _counts(tree: Any) -> list[tuple[str, LossPlace, Any]]:
    """Return what may count in a tree: the field or key that it is stored under, its place, and the number."""
    leaves = enumerate(jax.tree_util.tree_flatten_with_path(tree)[0])
    return [(_name(path, tree), LossPlace(tuple(path), at), leaf) for at, (path, leaf) in leaves if _is_count(leaf)]


def _name(path: tuple[Any, ...], tree: Any) -> str:
    """Return the field or key of a leaf, or of the variable of Flax that holds it; empty for one in a sequence."""
    names = [str(getattr(key, "name", getattr(key, "key", ""))) for key in path[-2:]]
    index = getattr(path[-1], "idx", None) if path else None
    if index is not None and len(path) > _FROM_GRAPH:
        return _name_in_graph(LossPlace(path[:-_FROM_GRAPH], 0).find(tree), index)
    return names[0] if len(names) > 1 and names[1] == _VALUE else names[-1] if names else ""


def _name_in_graph(states: Any, index: int) -> str:
    """Return the attribute that holds a variable among the states that ``nnx.jit`` makes of a module or optimizer.

    The definition of its graph has the attributes in the order of the nodes that they hold; some are variables.
    """
    graph = getattr(states, "_graphdef", None)
    nodes = iter(getattr(graph, "nodes", ())[1:])
    held = [key for key, kind in getattr(graph, "attributes", ()) if type(kind).__name__ == "NodeAttr"]
    names = [key for key, node in zip(held, nodes, strict=False) if type(node).__name__ == "VariableDef"]
    return str(names[index]) if index < len(names) else ""


def _is_count(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array) and leaf.ndim == 0 and jnp.issubdtype(leaf.dtype, jnp.integer)
    return is_array or (isinstance(leaf, int) and not isinstance(leaf, bool))
