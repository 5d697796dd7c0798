"""Template filters that format numbers, text and phases."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from leadline.records.describe import response
from leadline.records.formatting import (
    counted,
    duration,
    iso,
    latency,
    phase_label,
    share,
    significant,
    size,
    worker_label,
)

_UNIT_SPACE: Final = re.compile(r"(?<=\d) (?=%|(?:[mµn]?s|[kMGT]?B)\b)")
_DIRECTIONS: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def split_code(text: str) -> list[tuple[bool, str]]:
    """Split docstring text into pieces, each with whether it is code between double backticks."""
    return [(index % 2 == 1, piece) for index, piece in enumerate(text.split("``")) if piece]


def without_direction_marks(text: object) -> str:
    """Remove Unicode direction marks, which can disguise a name."""
    return _DIRECTIONS.sub("", str(text))


def unbroken(text: object) -> str:
    """Put a no-break space between each number and its unit."""
    return _UNIT_SPACE.sub("\u00a0", str(text))


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "split_code": split_code,
    "counted": counted,
    "duration": lambda seconds: "–" if seconds is None else duration(seconds),
    "iso": iso,
    "latency": lambda ns: latency(None if ns is None else ns / 1e9),
    "share": lambda ratio: "–" if ratio is None else share(ratio),
    "size": lambda count: "–" if count is None else size(count),
    "phase_label": phase_label,
    "response": response,
    "significant": significant,
    "unbroken": unbroken,
    "without_direction_marks": without_direction_marks,
    "worker_label": worker_label,
    "thousands": lambda value: "–" if value is None else f"{value:,}",
}
"""Filters by the name that templates use."""
