"""Measurements of a run as blocks of text: scalars, time breakdown and resource utilization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.analysis.digest import Digest
from leadline.analysis.time_document import (
    BottleneckDocument,
    JobDocument,
    PhaseTime,
    ThroughputDocument,
    TimeDocument,
    Utilization,
)
from leadline.cli.console import number
from leadline.reader.run import Run
from leadline.reader.table_rows import BucketRow
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.formatting import counted, duration, latency, listed, phase_label, share, size
from leadline.records.loss_roles import logged_losses
from leadline.records.metric_names import PRINTED
from leadline.records.metric_roles import is_bookkeeping, role_in
from leadline.records.series import TensorInfo

_MAX_SCALARS: Final = 16
_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 24
_ROUNDING: Final = 1e-12
"""Means of equal values differ by as much, as a share of them."""
_MIN_CURVE: Final = 8
"""The shortest sparkline."""
_GAP: Final = 2
_MAX_PHASES: Final = 6
_MIN_SHARE: Final = 0.005
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


def sparkline_lines(digest: Digest, width: int) -> RenderableType | None:
    """Each scalar in each mode: first and last value, sparkline, minimum and maximum; None if nothing was captured.

    With several workers, the values are those of the first. In a narrow terminal the sparklines are shorter, and the
    number of values is left out.

    Args:
        width: Of the terminal, in characters.
    """
    names = [scalar for scalar in digest.scalar_names() if _is_shown(digest.run, scalar[0])]
    rows = [_scalar_row(digest, name, mode) for name, mode in names[:_MAX_SCALARS]]
    parts: list[RenderableType] = [_scalar_table(rows, width, more=len(names) - len(rows))] if rows else []
    if others := _bookkeeping(digest.run):
        parts.append(Text(f"also logged: {listed(others)}", style="dim"))
    if captured := _captured(digest.run):
        parts.append(Text(captured, style="dim"))
    return Group(*parts) if parts else None


@dataclass(frozen=True, slots=True)
class _ScalarRow:
    """A scalar in a mode, as it is printed."""

    name: str
    about: str
    """Its mode, origin and role, where they are not clear from the name."""
    ends: str
    values: list[float]
    extremes: str
    count: str
    """``152 values``"""
    remarks: tuple[str, ...]

    def figures(self, *, has_count: bool) -> str:
        """``0.337 … 2.75, 152 values, 2 not finite``."""
        return ", ".join((self.extremes, *((self.count,) if has_count else ()), *self.remarks))


def _scalar_table(rows: Sequence[_ScalarRow], width: int, *, more: int) -> Table:
    """The rows with sparklines as long as the width allows; without, if there is no room for a short one."""
    heads = ("", "", "first → last", "min … max")
    has_count = _used(rows, heads, has_count=True) + _WIDTH <= width
    used = _used(rows, heads, has_count=has_count)
    room = min(_WIDTH, width - used)
    table = Table.grid(padding=(0, _GAP))
    curve = ("",) if room >= _MIN_CURVE else ()
    table.add_row(*(Text(word, style="dim", no_wrap=True) for word in (*heads[:3], *curve, heads[3])))
    for row in rows:
        drawn = (Text(sparkline(row.values, room), no_wrap=True),) if curve else ()
        table.add_row(
            Text(row.name, overflow="ellipsis", no_wrap=True),
            Text(row.about, style="dim"),
            Text(row.ends, no_wrap=True),
            *drawn,
            Text(row.figures(has_count=has_count), style="dim"),
        )
    if more:
        table.add_row(Text(f"and {counted(more, 'more scalar')}", style="dim"))
    return table


def _used(rows: Sequence[_ScalarRow], heads: Sequence[str], *, has_count: bool) -> int:
    """The width of the columns around the sparklines, with the gaps between all of them."""
    cells = [(row.name, row.about, row.ends, row.figures(has_count=has_count)) for row in rows]
    return sum(max(map(cell_len, column)) + _GAP for column in zip(heads, *cells, strict=True))


def _is_shown(run: Run, name: str) -> bool:
    info = run.archive.infos().get(name)
    return info is not None and _is_scalar(info) and not is_bookkeeping(name, info.collections)


def _bookkeeping(run: Run) -> list[str]:
    """The scalars that are no results of the training, of which no curve is shown."""
    infos = run.archive.infos()
    return [name for name, info in infos.items() if _is_scalar(info) and is_bookkeeping(name, info.collections)]


def _is_scalar(info: TensorInfo) -> bool:
    return not {"losses", "metrics", "scalars"}.isdisjoint(info.collections)


def _scalar_row(digest: Digest, name: str, mode: str) -> _ScalarRow:
    rows = digest.scalar(name, mode).to_pylist()
    workers = sorted({row["worker"] for row in rows}, key=natural_sort_key)
    rows = [row for row in rows if row["worker"] == workers[0]]
    info = digest.run.archive.infos().get(name)
    collections = info.collections if info is not None else ()
    is_again = name in logged_losses({tensor: its.collections for tensor, its in digest.run.archive.infos().items()})
    origin = PRINTED if PRINTED in collections else "logged" if is_again else ""
    role = role_in(collections).replace("_", " ")
    shown_role = role if role and role != name.replace("_", " ") else ""
    return _ScalarRow(
        name=name,
        about=" ".join(filter(None, ("" if mode == "train" else mode, origin, shown_role))),
        ends=f"{number(rows[0]['value'])} → {number(_last(rows[-1]))}",
        values=[row["value"] for row in rows],
        extremes=_extremes(rows),
        count=counted(sum(row["samples"] for row in rows), "value"),
        remarks=tuple(_remarks(rows, len(workers))),
    )


def _last(row: BucketRow) -> float:
    """The value of a row, or NaN if none of its samples is finite."""
    return math.nan if row["nonfinite"] == row["samples"] else float(row["value"])


def _extremes(rows: list[BucketRow]) -> str:
    finite = [row for row in rows if row["min"] == row["min"]]
    if not finite:
        return "never finite"
    return f"{number(min(row['min'] for row in finite))} … {number(max(row['max'] for row in finite))}"


def _remarks(rows: list[BucketRow], workers: int) -> list[str]:
    nonfinite = sum(row["nonfinite"] for row in rows)
    return [
        *([f"{nonfinite:,} not finite"] if nonfinite else []),
        *([f"first of {counted(workers, 'worker')}"] if workers > 1 else []),
    ]


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """A sparkline of at most ``width`` characters, scaled from minimum to maximum; blank where no value is finite."""
    parts = [values[index * len(values) // width : (index + 1) * len(values) // width] for index in range(width)]
    parts = parts if len(values) > width else [[value] for value in values]
    means = [sum(finite) / len(finite) if (finite := list(filter(math.isfinite, part))) else math.nan for part in parts]
    known = list(filter(math.isfinite, means))
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    is_flat = high - low <= _ROUNDING * max(abs(low), abs(high))
    scale = 0.0 if is_flat else (len(_BARS) - 1) / (high - low)
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


def time_block(time: TimeDocument, *, has_problem: bool) -> RenderableType | None:
    """The phases with their shares, the bottleneck of the run and a suggestion; None if no step was timed.

    Args:
        time: As in ``leadline show --json``.
        has_problem: Whether something is wrong with the model, so that its speed is of no concern yet.
    """
    if not time["phases"]:
        return None
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("phases", format_phases(time["phases"]) + _whole(time["phases"])),
        ("job", _job(time["job"])),
        ("throughput", _throughput(time["throughput"])),
        ("bottleneck", _bottleneck(time["bound"])),
        ("try", time["bound"]["try"] if time["bound"] and not has_problem else ""),
        ("machine", time["overload"]["message"] if time["overload"] else ""),
    ):
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return Group(Text("time breakdown"), Padding(table, (0, 0, 0, 2)))


def format_phases(phases: list[PhaseTime]) -> str:
    """``data loading 62 %, forward 20 % …``, of the time without the overhead where that is large."""
    own, _ = _own_phases(phases)
    shown = [(phase, ratio) for phase, ratio in own[:_MAX_PHASES] if ratio >= _MIN_SHARE] or own[:1]
    return ", ".join(f"{phase_label(phase)} {share(ratio)}" for phase, ratio in shown)


def _whole(phases: list[PhaseTime]) -> str:
    """The time to which the shares refer; in evaluation it is counted from start to end."""
    names = {phase["phase"] for phase in phases}
    others = [phase_label(mode) for mode in ("eval", "predict") if mode in names]
    return f" of the step time{_own_phases(phases)[1]}{f', {listed(others)} included' if others else ''}"


def _own_phases(phases: list[PhaseTime]) -> tuple[list[tuple[str, float]], str]:
    return describe.own_phases((phase["phase"], phase["share"]) for phase in phases)


def _bottleneck(bound: BottleneckDocument | None) -> str:
    return f"{bound['kind']}: {bound['message']}" if bound else ""


def _job(job: JobDocument) -> str:
    labels = {
        "before the first step": job["initialization"],
        "training": job["training_loop"],
        "after the last": job["finalization"],
    }
    parts = [f"{label} {duration(part['seconds'])}" for label, part in labels.items()]
    split = ", ".join(f"{name.replace('_', ' ')} {duration(seconds)}" for name, seconds in job["split"].items())
    return f"{', '.join(parts)}{f' ({split})' if split else ''}"


def _throughput(throughput: ThroughputDocument) -> str:
    parts = []
    if "steps_per_second" in throughput:
        parts.append(f"{number(throughput['steps_per_second'])} steps/s")
        parts.append(f"step time p50 {latency(throughput['step_ms']['median'] / 1e3)}")
        parts.append(f"p95 {latency(throughput['step_ms']['p95'] / 1e3)}")
    if "samples_per_second" in throughput:
        parts.append(f"{number(throughput['samples_per_second'])} samples/s")
    if "flops_per_second" in throughput:
        parts.append(_flops(throughput["flops_per_second"]))
    if "mfu" in throughput:
        parts.append(f"{share(throughput['mfu'])} of the device's peak")
    return ", ".join(parts)


def _flops(per_second: float) -> str:
    """``3.1 TFLOP/s``."""
    units = (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6), ("kFLOP/s", 1e3))
    unit, size = next((unit for unit in units if per_second >= unit[1]), units[-1])
    return f"{number(per_second / size)} {unit}"


def machine_block(usage: list[Utilization]) -> RenderableType | None:
    """Median, 95th percentile and maximum of each metric, over all nodes and devices; None without samples.

    Args:
        usage: As in ``leadline show --json`` under ``time``.
    """
    rows = [
        _usage_row(label, stats)
        for key, label in _LABELS.items()
        if (stats := _of(usage, key)) and _is_used(key, stats)
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


def _of(usage: list[Utilization], key: tuple[str, str]) -> list[Utilization]:
    return [entry for entry in usage if (entry["kind"], entry["metric"]) == key]


def _is_used(key: tuple[str, str], stats: list[Utilization]) -> bool:
    """Network rates that were always zero are left out."""
    return key[0] != "network" or max(entry["max"] for entry in stats) > 0


def _usage_row(label: str, stats: list[Utilization]) -> list[Text]:
    """One metric; of several devices the busiest one by its median."""
    top = max(stats, key=lambda entry: float(entry["p50"]))
    values = [Text(_value(top["metric"], value)) for value in (top["p50"], top["p95"], top["max"])]
    note = f"busiest of {len(stats)}" if len(stats) > 1 else ""
    return [Text(label, style="dim"), *values, Text(note, style="dim")]


def _value(metric: str, value: float) -> str:
    if metric.endswith("bytes_per_second"):
        return f"{size(round(value))}/s"
    if metric.endswith("bytes"):
        return size(round(value))
    return f"{value:.3g} %" if value < 100 else f"{value:.0f} %"
