"""How losses, metrics and logged numbers went, a line each."""

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

_MOST: Final = 16
_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 24
_WIDE: Final = 90
"""Columns of a terminal from which on courses are drawn."""


def sparkline_lines(digest: Digest, width: int) -> RenderableType:
    """Each loss, metric and logged number in each mode: where it began and ended, its course, least and most.

    Of several workers the first tells.

    Args:
        width: Of the terminal, in characters.
    """
    names = [each for each in digest.scalar_names() if _is_told(digest.run, each[0])]
    table = Table.grid(padding=(0, 2))
    for name, mode in names[:_MOST]:
        table.add_row(Text(name, overflow="ellipsis", no_wrap=True), *_row(digest, name, mode, width))
    if len(names) > _MOST:
        table.add_row(Text(f"and {counted(len(names) - _MOST, 'more scalar')}", style="dim"))
    return Group(table, Text(_captured(digest.run), style="dim"))


def _is_told(run: Run, name: str) -> bool:
    info = run.archive.infos().get(name)
    return info is not None and bool({"losses", "metrics", "scalars"} & set(info.collections))


def _row(digest: Digest, name: str, mode: str, width: int) -> tuple[Text, ...]:
    rows = digest.scalar(name, mode).to_pylist()
    workers = sorted({row["worker"] for row in rows}, key=natural_sort_key)
    rows = [row for row in rows if row["worker"] == workers[0]]
    course = f"{number(rows[0]['value'])} → {number(_last(rows[-1]))}"
    drawn = (Text(sparkline([row["value"] for row in rows])),) if width >= _WIDE else ()
    return (
        Text("" if mode == "train" else mode, style="dim"),
        Text(course, no_wrap=True),
        *drawn,
        Text(_extremes(rows, len(workers)), style="dim"),
    )


def _last(row: dict[str, Any]) -> float:
    """A value, or NaN where nothing behind it is finite."""
    return math.nan if row["nonfinite"] == row["samples"] else float(row["value"])


def _extremes(rows: list[dict[str, Any]], workers: int) -> str:
    finite = [row for row in rows if row["min"] == row["min"]]
    least, most = (min(row["min"] for row in finite), max(row["max"] for row in finite)) if finite else (None, None)
    parts = [f"{number(least)} … {number(most)}" if finite else "never finite"]
    parts.append(counted(sum(row["samples"] for row in rows), "value"))
    lost = sum(row["nonfinite"] for row in rows)
    parts += [f"{lost:,} not finite"] if lost else []
    parts += [f"first of {counted(workers, 'worker')}"] if workers > 1 else []
    return ", ".join(parts)


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """A course in at most ``width`` characters, from its least to its most; a gap where nothing is finite."""
    parts = [values[place * len(values) // width : (place + 1) * len(values) // width] for place in range(width)]
    parts = parts if len(values) > width else [[each] for each in values]
    means = [sum(finite) / len(finite) if (finite := list(filter(math.isfinite, part))) else math.nan for part in parts]
    known = [each for each in means if math.isfinite(each)]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((each - low) * scale)] if math.isfinite(each) else " " for each in means)


def _captured(run: Run) -> str:
    nouns = (
        ("gradient", "gradients", ""),
        ("weight", "weights", ""),
        ("bias", "biases", "biases"),
        ("activation", "layers", ""),
    )
    counts = [(len(run.tensor_names(collection=collection)), noun, plural) for noun, collection, plural in nouns]
    told = [counted(count, noun, plural) for count, noun, plural in counts if count]
    return f"captured: {', '.join(told)}" if told else ""
