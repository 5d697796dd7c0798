"""Readers of system metrics, in smdebug's interface."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase
from leadline.reader.table_rows import SystemRow

_TYPES: Final = {"disk": "i/o"}
"""smdebug's types of metrics by Leadline's kinds of devices; other kinds keep their name."""
DIMENSIONS: Final = {
    ("cpu", "utilization_percent"): "CPUUtilization",
    ("gpu", "utilization_percent"): "GPUUtilization",
    ("gpu", "memory_used_percent"): "GPUMemoryUtilization",
    ("memory", "used_percent"): "MemoryUsedPercent",
}
"""smdebug's dimensions by Leadline's kind and metric; other metrics keep their name, which has the unit."""
_CORE: Final = re.compile(r"core(\d+)")


@dataclass(frozen=True, slots=True)
class SystemProfilerEvent:
    """One sample of a system metric."""

    timestamp: float
    """Seconds since the epoch."""
    type: str
    name: str
    dimension: str
    value: float
    node_id: str


class SystemMetricsReader(MetricsReaderBase[SystemProfilerEvent]):
    """Reads system metrics; see ``MetricsReaderBase``. The mean over the cores of a node is no event."""

    def _read(self, start_ns: int, end_ns: int, event_type: str | None) -> list[SystemProfilerEvent]:
        rows = self.run.system_metrics(start_ns=start_ns, end_ns=end_ns + 1).to_pylist()
        with_cores = {row["node"] for row in rows if _CORE.fullmatch(row["device"])}
        events = [_event(row) for row in rows if not _is_mean(row, with_cores)]
        return [event for event in events if event_type in (None, event.type)]

    def _bounds(self) -> tuple[int, int]:
        times = self.run.system_metrics().column("time_ns").to_pylist()
        return (times[0], times[-1]) if times else (0, 0)


class LocalSystemMetricsReader(SystemMetricsReader):
    """Reads the system metrics of a local folder."""

    def __init__(self, trace_root_folder: str | os.PathLike[str], use_in_memory_cache: bool = False) -> None:
        super().__init__(trace_root_folder, use_in_memory_cache)


class S3SystemMetricsReader(SystemMetricsReader):
    """Reads the system metrics of a run of Leadline in S3."""

    def __init__(self, s3_trial_path: str, use_in_memory_cache: bool = False) -> None:
        super().__init__(s3_trial_path, use_in_memory_cache)


def _is_mean(row: SystemRow, with_cores: set[str]) -> bool:
    return row["kind"] == "cpu" and row["device"] == "total" and row["node"] in with_cores


def _event(row: SystemRow) -> SystemProfilerEvent:
    kind, device, metric = row["kind"], row["device"], row["metric"]
    core = _CORE.fullmatch(device)
    dimension = DIMENSIONS.get((kind, metric), metric)
    name = f"cpu{core[1]}" if kind == "cpu" and core else device
    return SystemProfilerEvent(
        row["time_ns"] / 10**9, _TYPES.get(kind, kind), name, dimension, row["value"], row["node"]
    )
