"""Losses, metrics and logged scalars of a run, one line with a sparkline for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.analysis.digest import Digest
from leadline.cli.console import number
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.formatting import counted

_MAX_SCALARS: Final = 16
_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 24
_MIN_WIDTH: Final = 90
"""The minimum width of a terminal for sparklines."""


def sparkline_lines(digest: Digest, width: int) -> RenderableType:
    """Each scalar in each mode: first and last value, sparkline, minimum and maximum.

    With several workers, the values are those of the first.

    Args:
        width: Of the terminal, in characters.
    """
    names = [scalar for scalar in digest.scalar_names() if _is_shown(digest.run, scalar[0])]
    table = Table.grid(padding=(0, 2))
    for name, mode in names[:_MAX_SCALARS]:
        table.add_row(Text(name, overflow="ellipsis", no_wrap=True), *_row(digest, name, mode, width))
    if len(names) > _MAX_SCALARS:
        table.add_row(Text(f"and {counted(len(names) - _MAX_SCALARS, 'more scalar')}", style="dim"))
    return Group(table, Text(_captured(digest.run), style="dim"))


def _is_shown(run: Run, name: str) -> bool:
    info = run.archive.infos().get(name)
    return info is not None and bool({"losses", "metrics", "scalars"} & set(info.collections))


def _row(digest: Digest, name: str, mode: str, width: int) -> tuple[Text, ...]:
    rows = digest.scalar(name, mode).to_pylist()
    workers = sorted({row["worker"] for row in rows}, key=natural_sort_key)
    rows = [row for row in rows if row["worker"] == workers[0]]
    ends = f"{number(rows[0]['value'])} → {number(_last(rows[-1]))}"
    chart = (Text(sparkline([row["value"] for row in rows])),) if width >= _MIN_WIDTH else ()
    return (
        Text("" if mode == "train" else mode, style="dim"),
        Text(ends, no_wrap=True),
        *chart,
        Text(_extremes(rows, len(workers)), style="dim"),
    )


def _last(row: dict[str, Any]) -> float:
    """The value of a row, or NaN if none of its samples is finite."""
    return math.nan if row["nonfinite"] == row["samples"] else float(row["value"])


def _extremes(rows: list[dict[str, Any]], workers: int) -> str:
    finite = [row for row in rows if row["min"] == row["min"]]
    low, high = (min(row["min"] for row in finite), max(row["max"] for row in finite)) if finite else (None, None)
    parts = [f"{number(low)} … {number(high)}" if finite else "never finite"]
    parts.append(counted(sum(row["samples"] for row in rows), "value"))
    nonfinite = sum(row["nonfinite"] for row in rows)
    parts += [f"{nonfinite:,} not finite"] if nonfinite else []
    parts += [f"first of {counted(workers, 'worker')}"] if workers > 1 else []
    return ", ".join(parts)


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """A sparkline of at most ``width`` characters, scaled from minimum to maximum; blank where no value is finite."""
    parts = [values[index * len(values) // width : (index + 1) * len(values) // width] for index in range(width)]
    parts = parts if len(values) > width else [[value] for value in values]
    means = [sum(finite) / len(finite) if (finite := list(filter(math.isfinite, part))) else math.nan for part in parts]
    known = list(filter(math.isfinite, means))
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] if math.isfinite(mean) else " " for mean in means)


def _captured(run: Run) -> str:
    nouns = (
        ("gradient", "gradients", ""),
        ("weight", "weights", ""),
        ("bias", "biases", "biases"),
        ("activation", "layers", ""),
    )
    counts = [(len(run.tensor_names(collection=collection)), noun, plural) for noun, collection, plural in nouns]
    texts = [counted(count, noun, plural) for count, noun, plural in counts if count]
    return f"captured: {', '.join(texts)}" if texts else ""
