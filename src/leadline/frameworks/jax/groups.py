"""What is computed at taps: the tensors of one shape and type together, so that a program has few operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jax import lax

from leadline.frameworks.jax import kernels
from leadline.frameworks.jax.interpreter import Found
from leadline.frameworks.jax.loss_numbers import numbers_of
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.jax.tensors import Wanted

MAX_STACKED: Final = 2**24
"""Elements of the tensors that are stacked, which takes their memory once more."""
VALUE: Final = ("sum",)
RATIO: Final = ("ratio",)
_TYPES: Final = frozenset("fiubc")
"""Kinds of the types that numpy has itself; others are copied as float32."""


class Seen(NamedTuple):
    """The values at a tap, of which nothing is computed yet."""

    values: Sequence[Any]


def rows_of(wanted: Mapping[Tap, Wanted], found: Found, max_stacked: int) -> Found:
    """Return what is wanted of the values at some taps, by groups of taps; what is computed already is kept.

    Args:
        found: By its tap, a ``Seen``; by its group, what ``rows_of`` has made of it.
        max_stacked: The elements of the tensors that are stacked; 0: each is computed by itself.

    Shape:
        result: for a group of ``n`` taps a list of rows ``(n, numbers)``, each of which begins with a mark that it was
        computed, and the copies of those that are copied.
    """
    groups: dict[Any, list[tuple[Tap, Sequence[Any]]]] = {}
    finished: Found = {}
    for tap, taken in found.items():
        if isinstance(taken, Seen):
            groups.setdefault(_kind(tap, wanted[tap], taken.values), []).append((tap, taken.values))
        else:
            finished[tap] = taken
    for members in groups.values():
        size = max(1, members[0][1][0].size)
        length = max(1, max_stacked // size)
        for begin in range(0, len(members), length):
            part = members[begin : begin + length]
            taps = tuple(tap for tap, _ in part)
            copies = [_copied(values[0]) for tap, values in part if wanted[tap].has_copy]
            finished[taps] = [_rows(taps[0], wanted[taps[0]], [values for _, values in part]), *copies]
    return finished


def _kind(tap: Tap, wanted: Wanted, values: Sequence[Any]) -> Any:
    """Return what taps have in common that are computed together."""
    if wanted.loss_call is not None or wanted.info.collections == ("losses",):
        return tap
    return wanted.primaries, tap.kind == "change", tuple((value.shape, value.dtype) for value in values)


def _rows(tap: Tap, wanted: Wanted, members: Sequence[Sequence[Any]]) -> Any:
    first = [values[0] for values in members]
    if wanted.loss_call is not None:
        rows = lax.expand_dims(numbers_of(wanted.loss_call, *members[0]), (0,))
    elif wanted.primaries == RATIO:
        rows = kernels.change_ratios(first, [values[1] for values in members], is_sum=tap.kind != "change")
    elif wanted.info.collections == ("losses",):
        rows = kernels.summarize([lax.convert_element_type(first[0], "float32").mean()], VALUE)
    else:
        rows = kernels.summarize(first, wanted.primaries)
    return kernels.marked(rows)


def _copied(value: Any) -> Any:
    is_known = value.dtype.kind in _TYPES and value.dtype.isbuiltin
    return value if is_known else lax.convert_element_type(value, "float32")
