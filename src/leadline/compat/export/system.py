"""Export of a run's system metrics as smdebug's readers expect them: one file of JSON lines for each minute."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from leadline.compat.smdebug.profiler.system_metrics_reader import DIMENSIONS
from leadline.reader.table_rows import SystemRow
from leadline.store.documents import make_folder, replace_file

if TYPE_CHECKING:
    from leadline.reader.run import Run

_SECONDS_PER_FILE: Final = 60


def export_system(run: Run, folder: str) -> int:
    """Write the utilization of cores, GPUs and memory below ``system``; nodes are ``algo-1``, ``algo-2`` …

    Returns:
        The number of samples.
    Raises:
        OSError: A file could not be written.
    """
    rows = run.system_metrics().to_pylist()
    nodes = {node: f"algo-{number}" for number, node in enumerate(sorted({row["node"] for row in rows}), 1)}
    files: dict[str, list[str]] = {}
    for row in rows:
        for line in _lines(row, nodes[row["node"]]):
            files.setdefault(_place(row["time_ns"], nodes[row["node"]]), []).append(line)
    for place, lines in files.items():
        path = os.path.join(folder, place)
        make_folder(os.path.dirname(path))
        with replace_file(path) as file:
            file.write("".join(lines).encode())
    return sum(map(len, files.values()))


def _place(time_ns: int, node: str) -> str:
    minute = time_ns // 1_000_000_000 // _SECONDS_PER_FILE * _SECONDS_PER_FILE
    return f"system/incremental/{datetime.fromtimestamp(minute, UTC):%Y%m%d%H}/{minute:010d}.{node}.json"


def _lines(row: SystemRow, node: str) -> Iterator[str]:
    """Yield the line of a sample; the mean over the cores is none, as readers compute it."""
    kind, device = row["kind"], row["device"]
    dimension = DIMENSIONS.get((kind, row["metric"]))
    if dimension is None or (kind, device) == ("cpu", "total"):
        return
    name = {"cpu": device.replace("core", "cpu"), "memory": dimension}.get(kind, device)
    entry = {"Type": kind, "Name": name, "Dimension": dimension, "Value": row["value"], "NodeId": node}
    yield json.dumps(entry | {"Timestamp": row["time_ns"] / 1e9}) + "\n"
