"""Operators of detailed profiling windows: which take most, in which phase and module, and on what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

_OTHER: Final = "other"


def top_operators(operators: pa.Table, *, device: str | None = None, most: int | None = 20) -> list[dict[str, Any]]:
    """The operators that take most time, as rows of a table.

    Args:
        operators: As ``Run.operators`` gives it, by any columns; or ``Run.operator_calls`` grouped likewise.
        device: ``cpu``, or ``gpu`` for all accelerators; None: all.
        most: So many; None: all.
    Returns:
        The columns of the table with a ``label`` in words; ``share`` and ``cumulative_share`` are of what was asked
        for, between 0 and 1.
    """
    rows = [each for each in operators.to_pylist() if device is None or _is_on(each.get("device", "cpu"), device)]
    whole = sum(each["own_ns"] for each in rows)
    so_far, found = 0, []
    for each in sorted(rows, key=lambda row: (-row["own_ns"], str(row.get("operator")))):
        so_far += each["own_ns"]
        shares = (each["own_ns"] / whole, so_far / whole) if whole else (0.0, 0.0)
        device_name = each.get("device", "")
        found.append(
            {**each, "device": device_name, "label": label_of(each), "share": shares[0], "cumulative_share": shares[1]}
        )
    return found[:most]


def label_of(row: Mapping[str, Any]) -> str:
    """``convolution, backward of layer1.0``: an operator with its phase and module, of those that are told."""
    name = str(row.get("operator") or "operators").removeprefix("aten::")
    phase, module = row.get("phase"), row.get("module")
    if phase and phase != _OTHER:
        return f"{name}, {phase} of {module}" if module else f"{name}, {phase}"
    return f"{name} in {module}" if module else name


def seconds_by(operators: pa.Table, column: str) -> dict[str, float]:
    """The operators' own time by a column: phase, device, module.

    Args:
        operators: As ``Run.operators`` gives it.
        column: One of its columns.
    """
    sums: dict[str, float] = defaultdict(float)
    for name, own_ns in zip(operators[column].to_pylist(), operators["own_ns"].to_pylist(), strict=True):
        sums[str(name)] += own_ns / 1e9
    return dict(sorted(sums.items(), key=lambda each: -each[1]))


def seconds_by_kind(operators: pa.Table) -> dict[str, float]:
    """The operators' own time on CPUs and on accelerators."""
    sums: dict[str, float] = defaultdict(float)
    for device, seconds in seconds_by(operators, "device").items():
        sums["CPU operators" if device == "cpu" else "GPU operators"] += seconds
    return dict(sums)


def _is_on(found: str, wanted: str) -> bool:
    return found == wanted or (wanted == "gpu" and found != "cpu")
