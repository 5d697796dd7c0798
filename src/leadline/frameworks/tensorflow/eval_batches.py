"""The batches of ``evaluate`` on TensorFlow, which a function takes from an iterator itself."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from leadline.frameworks.tensorflow.replay import empty_iterator, fill, take

_REPEATABLE: Final = (tf.TensorSpec,)
"""What an iterator can yield once more."""


def take_batches(args: tuple[Any, ...], count: int) -> tuple[list[Any], tuple[Any, ...]] | None:
    """Take the batches that a call is about to take.

    Args:
        args: Those of the call.
        count: The number of batches.

    Returns:
        The batches, and arguments with an iterator that yields them once more; None: there are none, or they cannot be
        taken without loss.
    """
    if len(args) != 1 or not isinstance(args[0], OwnedIterator):
        return None
    iterator = args[0]
    if not all(isinstance(spec, _REPEATABLE) for spec in tf.nest.flatten(iterator.element_spec)):
        return None
    copy = empty_iterator(iterator)
    taken = list(take(iterator, count))
    if not taken:
        return None
    fill([copy], taken)
    return taken, (copy,)


def joined(batches: list[Any]) -> Any:
    """Return batches as one."""
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *batches) if len(batches) > 1 else batches[0]
