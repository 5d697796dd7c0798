"""How templates say numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from leadline.dashboard.phase_labels import phase_words
from leadline.records.formatting import counted, duration, iso, share, size

_DIRECTIONS: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def significant(value: float | None) -> str:
    """Four significant digits; a dash for what nobody knows."""
    return "–" if value is None else f"{value:.4g}"


def measured(value: float) -> str:
    """Three significant digits and more, without powers of ten: ``0.42``, ``57.1``, ``1,234``."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def coded(text: str) -> list[tuple[bool, str]]:
    """A docstring's text in pieces, and whether each is code: what stands between two pairs of backticks."""
    return [(place % 2 == 1, piece) for place, piece in enumerate(text.split("``")) if piece]


def undirected(text: object) -> str:
    """Text without the signs that turn its direction, and with it what a name seems to be."""
    return _DIRECTIONS.sub("", str(text))


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "coded": coded,
    "counted": counted,
    "duration": lambda seconds: "–" if seconds is None else duration(seconds),
    "iso": iso,
    "milliseconds": lambda ns: "–" if ns is None else f"{ns / 1e6:,.3f}",
    "share": lambda ratio: "–" if ratio is None else share(ratio),
    "size": lambda count: "–" if count is None else size(count),
    "measured": measured,
    "phase_words": phase_words,
    "significant": significant,
    "undirected": undirected,
    "thousands": lambda value: "–" if value is None else f"{value:,}",
}
"""Names that templates may use behind ``|``."""
