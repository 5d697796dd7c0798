"""Sparklines as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_MARGIN: Final = 2.0


def sparkline(values: Sequence[float | None], *, width: int = 120, height: int = 28) -> str:
    """Return a sparkline of numbers as one inline SVG; "" if fewer than two are finite.

    The SVG contains only numbers and inherits the text colour, so a page may embed it unescaped. Non-finite values are
    gaps.

    Args:
        values: In order, evenly spaced.
        width, height: Pixels, > 4.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, high = float(min(finite)), float(max(finite))
    span = high - low
    points = max(1, len(values) - 1)
    segments: list[list[str]] = []
    segment: list[str] = []
    for index, value in enumerate(values):
        if value is None or not math.isfinite(value):
            segments, segment = [*segments, segment], []
            continue
        ratio = (float(value) - low) / span if span > 0 and math.isfinite(span) else 0.5
        x = _MARGIN + (width - 2 * _MARGIN) * index / points
        y = height - _MARGIN - (height - 2 * _MARGIN) * ratio
        segment.append(f"{x:.1f},{y:.1f}")
    lines = [points if len(points) > 1 else points * 2 for points in (*segments, segment) if points]
    polylines = "".join(f'<polyline points="{" ".join(points)}"/>' for points in lines)
    return (
        f'<svg class="sparkline" width="{width:d}" height="{height:d}" viewBox="0 0 {width:d} {height:d}" '
        f'aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" '
        f'stroke-linecap="round">{polylines}</svg>'
    )
