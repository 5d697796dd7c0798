"""How statistics are derived from primaries: numbers that every backend computes, and that merge where those do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Namespace = Any
"""Functions ``sqrt`` and ``maximum`` of the numbers: ``numpy``."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a statistic is derived from primaries (``leadline.statistics.primaries``)."""

    primaries: tuple[str, ...]
    compute: Callable[[Namespace, Mapping[str, Any]], Any]
    """Computes the statistic from primaries and ``size``, the number of elements."""
    invert: Callable[[Any, Any], tuple[Any, ...]] | None = None
    """Computes primaries that have the statistic, from its value and ``size``; None: it does not determine them."""


def primary(name: str) -> Derivation:
    """Return the derivation of a statistic that is a primary."""
    return Derivation((name,), lambda xp, p: p[name], lambda value, size: (value,))


def per_element(name: str) -> Derivation:
    """Return the derivation of a primary divided by the number of elements."""
    return Derivation((name,), lambda xp, p: p[name] / p["size"], lambda value, size: (value * size,))


def root_of(name: str) -> Derivation:
    """Return the derivation of the square root of a primary."""
    return Derivation((name,), lambda xp, p: xp.sqrt(p[name]), lambda value, size: (value * value,))


def root_per_element(name: str) -> Derivation:
    """Return the derivation of the square root of a primary divided by the number of elements."""
    return Derivation((name,), lambda xp, p: xp.sqrt(p[name] / p["size"]), lambda value, size: (value * value * size,))


LARGEST_MODULUS: Final = Derivation(
    ("min", "max"), lambda xp, p: xp.maximum(abs(p["min"]), abs(p["max"])), lambda value, size: (-value, value)
)
