"""Top operators of detailed profile windows, and their time by phase, module and device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, Required, TypedDict, cast

import pyarrow as pa

_OTHER: Final = "other"


class OperatorSum(TypedDict, total=False):
    """All calls of an operator, or of whatever columns the calls are grouped by; other columns are missing."""

    operator: str
    phase: str
    module: str
    mode: str
    step: int
    thread: int
    worker: str
    window: str
    device: Required[str]
    calls: int
    start_ns: int
    own_ns: Required[int]
    total_ns: int
    memory_bytes: int | None
    label: Required[str]
    share: Required[float]
    cumulative_share: Required[float]


def top_operators(operators: pa.Table, *, device: str | None = None, limit: int | None = 20) -> list[OperatorSum]:
    """Return the most expensive operators, as rows of a table.

    Args:
        operators: As returned by ``Run.operators``, grouped by any columns; or ``Run.operator_calls`` grouped likewise.
        device: ``cpu``, or ``gpu`` for all accelerators; None for all.
        limit: The maximum number of rows; None for all.
    Returns:
        The columns of the table and a ``label``; ``share`` and ``cumulative_share`` refer to the selected device,
        between 0 and 1.
    """
    rows = [row for row in operators.to_pylist() if device is None or _is_on(row.get("device", "cpu"), device)]
    total_ns = sum(row["own_ns"] for row in rows)
    cumulative_ns, top = 0, []
    for row in sorted(rows, key=lambda row: (-row["own_ns"], str(row.get("operator")))):
        cumulative_ns += row["own_ns"]
        shares = (row["own_ns"] / total_ns, cumulative_ns / total_ns) if total_ns else (0.0, 0.0)
        device_name = row.get("device", "")
        top.append(
            {**row, "device": device_name, "label": label_of(row), "share": shares[0], "cumulative_share": shares[1]}
        )
    return cast(list[OperatorSum], top[:limit])


def label_of(row: Mapping[str, Any]) -> str:
    """Return a label like ``convolution, backward of layer1.0``: an operator with its phase and module, if known."""
    name = str(row.get("operator") or "operators").removeprefix("aten::")
    phase, module = row.get("phase"), row.get("module")
    if phase and phase != _OTHER:
        return f"{name}, {phase} of {module}" if module else f"{name}, {phase}"
    return f"{name} in {module}" if module else name


def seconds_by(operators: pa.Table, column: str) -> dict[str, float]:
    """Return the operators' self time in seconds by a column: phase, device, module.

    Args:
        operators: As returned by ``Run.operators``.
        column: One of its columns.
    """
    sums: dict[str, float] = defaultdict(float)
    for name, own_ns in zip(operators[column].to_pylist(), operators["own_ns"].to_pylist(), strict=True):
        sums[str(name)] += own_ns / 1e9
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def seconds_by_kind(operators: pa.Table) -> dict[str, float]:
    """Return the operators' self time in seconds on CPUs and on accelerators."""
    sums: dict[str, float] = defaultdict(float)
    for device, seconds in seconds_by(operators, "device").items():
        sums["CPU operators" if device == "cpu" else "GPU operators"] += seconds
    return dict(sums)


def _is_on(actual: str, requested: str) -> bool:
    return actual == requested or (requested == "gpu" and actual != "cpu")
