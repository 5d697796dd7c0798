"""The number of steps that a train state or an optimizer has made, those before a checkpoint included."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp

_COUNTS: Final = ("step", "count")
"""The fields of a train state of Flax, and of the states of optax, in which they count."""

_PARTS_OF_KERAS: Final = 4


def counted_steps(arguments: Any) -> int | None:
    """Return the largest count among the arguments of a call, that of a train state first; None: there is none.

    Called once in a process: a count on a device is waited for.
    """
    of_keras = _count_of_keras(arguments)
    if of_keras is not None:
        return of_keras
    leaves = jax.tree_util.tree_flatten_with_path(arguments)[0]
    for field in _COUNTS:
        counts = [leaf for path, leaf in leaves if _name(path) == field and _is_count(leaf)]
        if counts:
            return max(int(count) for count in counts)
    return None


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


def _name(path: tuple[Any, ...]) -> str:
    """Return the field or key that a leaf is stored under; empty for one in a sequence."""
    last = path[-1] if path else None
    return str(getattr(last, "name", getattr(last, "key", "")))


def _is_count(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array) and leaf.ndim == 0 and jnp.issubdtype(leaf.dtype, jnp.integer)
    return is_array or (isinstance(leaf, int) and not isinstance(leaf, bool))
