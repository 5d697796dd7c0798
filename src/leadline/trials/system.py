"""System metrics of a trial, written as the samples of a run."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.records.formatting import counted
from leadline.records.metric import Channel
from leadline.store import layout
from leadline.store.run_files import regular_lines
from leadline.store.segments import SegmentFolder
from leadline.store.stream_writer import StreamWriter
from leadline.trials.folder import DAMAGE, SYSTEM, files_below, reason

_BATCH_ROWS: Final = 512
_SEGMENT_BATCHES: Final = 256
_NODE: Final = re.compile(r"\w[\w.-]*", re.ASCII)
_METRICS: Final = {
    ("cpu", "CPUUtilization"): "utilization_percent",
    ("gpu", "GPUUtilization"): "utilization_percent",
    ("gpu", "GPUMemoryUtilization"): "memory_used_percent",
}
"""Leadline's names by type and dimension; other dimensions keep theirs."""


@dataclass(slots=True)
class ImportedNode:
    """What was imported of one node: its first and last sample, and its devices by kind."""

    name: str
    first_ns: int
    last_ns: int
    devices: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sample:
    node: str
    channel: Channel
    time_ns: int
    value: float


def import_system(folder: str, run: str, damage: list[str]) -> dict[str, ImportedNode]:
    """Import the system metrics of a trial; of a node's cores also the mean, as Leadline samples it.

    Args:
        folder: The folder of the profiles.
        damage: Receives a line for each file with lines that cannot be read.
    """
    nodes: dict[str, ImportedNode] = {}
    writers: dict[str, StreamWriter] = {}
    cores: dict[tuple[str, int], list[float]] = {}
    for sample in _samples(folder, damage):
        node = nodes.setdefault(sample.node, ImportedNode(sample.node, sample.time_ns, sample.time_ns))
        node.first_ns, node.last_ns = min(node.first_ns, sample.time_ns), max(node.last_ns, sample.time_ns)
        node.devices.setdefault(sample.channel.kind, set()).add(sample.channel.device)
        _write(run, writers, sample)
        if sample.channel.kind == "cpu" and sample.channel.device != "total":
            cores.setdefault((sample.node, sample.time_ns), []).append(sample.value)
    total = Channel("cpu", "total", "utilization_percent")
    for (name, time_ns), values in sorted(cores.items()):
        if "total" not in nodes[name].devices["cpu"]:
            _write(run, writers, _Sample(name, total, time_ns, sum(values) / len(values)))
    for writer in writers.values():
        writer.flush()
    return nodes


def _write(run: str, writers: dict[str, StreamWriter], sample: _Sample) -> None:
    if sample.node not in writers:
        folder = SegmentFolder(run, layout.SYSTEM, sample.node)
        writers[sample.node] = StreamWriter(layout.SYSTEM, folder, _BATCH_ROWS, _SEGMENT_BATCHES)
    row = {"time_ns": sample.time_ns, "channel": 0, "value": sample.value}
    writers[sample.node].add((sample.channel,), row)


def _samples(folder: str, damage: list[str]) -> Iterator[_Sample]:
    """Yield the samples in the order of the files, which is that of time."""
    for path in files_below(os.path.join(folder, SYSTEM)):
        if not path.endswith(".json"):
            continue
        place, bad, first = os.path.relpath(path, folder), 0, ""
        try:
            for number, line in enumerate(regular_lines(path), 1):
                if not line.strip():
                    continue
                try:
                    yield _parse(json.loads(line))
                except DAMAGE as error:
                    bad, first = bad + 1, first or f"line {number:,}: {reason(error)}"
        except OSError as error:
            damage.append(f"{place} cannot be read ({reason(error)})")
        if bad:
            damage.append(f"{place} is damaged at {first}; {counted(bad, 'line')} left out")


def _parse(entry: Any) -> _Sample:
    kind, dimension, node = str(entry["Type"]), str(entry["Dimension"]), str(entry["NodeId"])
    value, time_ns = float(entry["Value"]), round(float(entry["Timestamp"]) * 1e9)
    if not _NODE.fullmatch(node):
        raise ValueError(f"no name of a node: {node!r}")
    if not math.isfinite(value):
        raise ValueError(f"no finite value: {value}")
    return _Sample(node, _channel(kind, dimension, str(entry.get("Name") or "total")), time_ns, value)


def _channel(kind: str, dimension: str, device: str) -> Channel:
    """Return the channel of a metric: CPU cores and GPUs as Leadline names them, other metrics by their dimension."""
    kind = {"i/o": "disk", "memory": "memory"}.get(kind, kind)
    core = re.fullmatch(r"cpu(\d+)", device)
    if kind == "cpu" and core:
        device = f"core{core[1]}"
    if kind == "memory" and "MemoryUsedPercent" in (device, dimension):
        return Channel("memory", "total", "used_percent")
    return Channel(kind, device, _METRICS.get((kind, dimension), dimension))
