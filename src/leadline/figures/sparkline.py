"""A line as small as a word, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_MARGIN: Final = 2.0


def sparkline(values: Sequence[float | None], *, width: int = 120, height: int = 28) -> str:
    """The course of some numbers as one inline SVG; "" where fewer than two are finite.

    It is made of numbers alone and takes the colour of the text around it, so that a page may place it as it is. What
    is not finite is a gap.

    Args:
        values: In order, evenly spaced.
        width, height: Pixels, > 4.
    """
    finite = [each for each in values if each is not None and math.isfinite(each)]
    if len(finite) < 2:
        return ""
    low, high = float(min(finite)), float(max(finite))
    span = high - low
    points = max(1, len(values) - 1)
    runs: list[list[str]] = []
    run: list[str] = []
    for at, value in enumerate(values):
        if value is None or not math.isfinite(value):
            runs, run = [*runs, run], []
            continue
        ratio = (float(value) - low) / span if span > 0 and math.isfinite(span) else 0.5
        x = _MARGIN + (width - 2 * _MARGIN) * at / points
        y = height - _MARGIN - (height - 2 * _MARGIN) * ratio
        run.append(f"{x:.1f},{y:.1f}")
    lines = [each if len(each) > 1 else each * 2 for each in (*runs, run) if each]
    drawn = "".join(f'<polyline points="{" ".join(each)}"/>' for each in lines)
    return (
        f'<svg class="sparkline" width="{width:d}" height="{height:d}" viewBox="0 0 {width:d} {height:d}" '
        f'aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" '
        f'stroke-linecap="round">{drawn}</svg>'
    )
