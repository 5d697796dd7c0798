"""Resource utilization of a run as a block of text."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.records.formatting import counted, size

_SHOWN: Final = ("p50", "p95", "max")
_LABELS: Final = {
    ("cpu", "utilization_percent"): "CPU",
    ("cpu", "iowait_percent"): "I/O wait",
    ("memory", "used_percent"): "memory",
    ("gpu", "utilization_percent"): "GPU",
    ("gpu", "memory_used_percent"): "GPU memory",
    ("network", "received_bytes_per_second"): "network received",
    ("network", "sent_bytes_per_second"): "network sent",
    ("process", "cpu_percent"): "job CPU",
    ("process", "rss_bytes"): "job memory (RSS)",
}


def machine_block(usage: list[dict[str, Any]]) -> RenderableType | None:
    """Median, 95th percentile and maximum of each metric, over all nodes and devices; None without samples.

    Args:
        usage: As in ``leadline show --json`` under ``time``.
    """
    rows = [
        _row(label, stats) for key, label in _LABELS.items() if (stats := _of(usage, key)) and _is_shown(key, stats)
    ]
    if not rows:
        return None
    nodes = len({entry["node"] for entry in usage})
    table = Table.grid(padding=(0, 2))
    titles = ("", "median", "p95", "max", "")
    for title in titles:
        table.add_column(justify="right" if title else "left")
    table.add_row(*(Text(title, style="dim") for title in titles))
    for row in rows:
        table.add_row(*row)
    has_gpu = any(entry["kind"] == "gpu" for entry in usage)
    head = f"resource utilization ({counted(nodes, 'node')}{'' if has_gpu else ', no GPU metrics'})"
    return Group(Text(head), Padding(table, (0, 0, 0, 2)))


def _of(usage: list[dict[str, Any]], key: tuple[str, str]) -> list[dict[str, Any]]:
    return [entry for entry in usage if (entry["kind"], entry["metric"]) == key]


def _is_shown(key: tuple[str, str], stats: list[dict[str, Any]]) -> bool:
    """Network rates that were always zero are left out."""
    return key[0] != "network" or max(entry["max"] for entry in stats) > 0


def _row(label: str, stats: list[dict[str, Any]]) -> list[Text]:
    """One metric; of several devices the busiest one by its median."""
    top = max(stats, key=lambda entry: float(entry["p50"]))
    values = [Text(_value(top["metric"], top[name])) for name in _SHOWN]
    note = f"busiest of {len(stats)}" if len(stats) > 1 else ""
    return [Text(label, style="dim"), *values, Text(note, style="dim")]


def _value(metric: str, value: float) -> str:
    if metric.endswith("bytes_per_second"):
        return f"{size(round(value))}/s"
    if metric.endswith("bytes"):
        return size(round(value))
    return f"{value:.3g} %" if value < 100 else f"{value:.0f} %"
