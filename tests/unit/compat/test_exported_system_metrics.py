"""System metrics as smdebug wrote them, imported and exported again: the same files with the same lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import leadline
from leadline.compat.export.system import export_system
from leadline.trials.importer import import_trial

ROWS = (
    ("cpu", "cpu0", "CPUUtilization", 4.25),
    ("cpu", "cpu1", "CPUUtilization", 8.0),
    ("gpu", "gpu0", "GPUUtilization", 55.0),
    ("gpu", "gpu0", "GPUMemoryUtilization", 12.5),
    ("memory", "MemoryUsedPercent", "MemoryUsedPercent", 31.0),
)
TIMES = (1591160699.5, 1591160700.0, 1591164299.75)
PLACES = ("2020060305/1591160640", "2020060305/1591160700", "2020060306/1591164240")


def lines(node: str, time: float) -> list[dict[str, Any]]:
    return [
        {"Type": kind, "Name": name, "Dimension": dimension, "Value": value, "NodeId": node, "Timestamp": time}
        for kind, name, dimension, value in ROWS
    ]


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each file, with times in microseconds: a float of seconds is no more precise."""
    files = sorted((folder / "system" / "incremental").rglob("*.json"))
    return {
        str(path.relative_to(folder / "system" / "incremental")): sorted(
            (_rounded(json.loads(line)) for line in path.read_text().splitlines()), key=json.dumps
        )
        for path in files
    }


def _rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"Timestamp": round(entry["Timestamp"], 6)}


def test_an_imported_trial_is_exported_as_it_was(tmp_path: Path) -> None:
    profiles = tmp_path / "job" / "profiler-output"
    for node in ("algo-1", "algo-2"):
        for place, time in zip(PLACES, TIMES, strict=True):
            path = profiles / "system" / "incremental" / f"{place}.{node}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(entry) + "\n" for entry in lines(node, time)))
    import_trial(tmp_path / "job", tmp_path / "run")
    count = export_system(leadline.open_run(tmp_path / "run"), str(tmp_path / "exported"))
    assert count == len(ROWS) * len(TIMES) * 2
    assert read(tmp_path / "exported") == read(profiles)
    assert len(read(profiles)) == 6
