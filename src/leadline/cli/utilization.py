"""How the machine of a run was used, as a block of text."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.records.formatting import counted, size

_SHOWN: Final = ("p50", "p95", "max")
_WORDS: Final = {
    ("cpu", "utilization_percent"): "CPU",
    ("cpu", "iowait_percent"): "waiting for I/O",
    ("memory", "used_percent"): "memory",
    ("gpu", "utilization_percent"): "GPU",
    ("gpu", "memory_used_percent"): "GPU memory",
    ("network", "received_bytes_per_second"): "network, received",
    ("network", "sent_bytes_per_second"): "network, sent",
    ("process", "cpu_percent"): "CPU of the job",
    ("process", "rss_bytes"): "memory of the job",
}


def machine_block(usage: list[dict[str, Any]]) -> RenderableType | None:
    """Median, 95th percentile and most of each metric, over all nodes and devices; None: nothing was sampled.

    Args:
        usage: As ``leadline show --json`` has it under ``time``.
    """
    rows = [_row(words, found) for key, words in _WORDS.items() if (found := _of(usage, key)) and _is_worth(key, found)]
    if not rows:
        return None
    nodes = len({each["node"] for each in usage})
    table = Table.grid(padding=(0, 2))
    for name in ("", "median", "95 %", "most", ""):
        table.add_column(justify="right" if name in ("median", "95 %", "most") else "left")
    table.add_row("", *(Text(each, style="dim") for each in ("median", "95 % below", "most", "")))
    for row in rows:
        table.add_row(*row)
    has_gpu = any(each["kind"] == "gpu" for each in usage)
    head = f"the machine ({counted(nodes, 'node')}{'' if has_gpu else '; no GPU was read'})"
    return Group(Text(head), Padding(table, (0, 0, 0, 2)))


def _of(usage: list[dict[str, Any]], key: tuple[str, str]) -> list[dict[str, Any]]:
    return [each for each in usage if (each["kind"], each["metric"]) == key]


def _is_worth(key: tuple[str, str], found: list[dict[str, Any]]) -> bool:
    """Rates that were never above nothing tell nothing."""
    return key[0] != "network" or max(each["max"] for each in found) > 0


def _row(words: str, found: list[dict[str, Any]]) -> list[Text]:
    """Of several devices those of the one that is used most, by its median."""
    top = max(found, key=lambda each: float(each["p50"]))
    spoken = [Text(_value(top["metric"], top[name])) for name in _SHOWN]
    several = f"the busiest of {len(found)}" if len(found) > 1 else ""
    return [Text(words, style="dim"), *spoken, Text(several, style="dim")]


def _value(metric: str, value: float) -> str:
    if metric.endswith("bytes_per_second"):
        return f"{size(round(value))}/s"
    if metric.endswith("bytes"):
        return size(round(value))
    return f"{value:.3g} %" if value < 100 else f"{value:.0f} %"
