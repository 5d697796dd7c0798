"""The time breakdown of a run as a block of text."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.console import number
from leadline.records.formatting import duration, share

_MAX_PHASES: Final = 6
_MIN_SHARE: Final = 0.005


def time_block(time: dict[str, Any]) -> RenderableType | None:
    """The phases with their shares, the bottleneck of the run and a suggestion; None if no step was timed.

    Args:
        time: As in ``leadline show --json``.
    """
    if not time["phases"]:
        return None
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("phases", format_phases(time["phases"])),
        ("job", _job(time["job"])),
        ("throughput", _throughput(time["throughput"])),
        ("bottleneck", _bottleneck(time["bound"])),
        ("try", time["bound"]["try"] if time["bound"] else ""),
    ):
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return Group(Text("time breakdown"), Padding(table, (0, 0, 0, 2)))


def format_phases(phases: list[dict[str, Any]]) -> str:
    """``data 62 %, forward 20 % …``."""
    shown = [phase for phase in phases[:_MAX_PHASES] if phase["share"] >= _MIN_SHARE] or phases[:1]
    return ", ".join(f"{phase['phase']} {share(phase['share'])}" for phase in shown)


def _bottleneck(bound: dict[str, Any] | None) -> str:
    return f"{bound['kind']}: {bound['message']}" if bound else ""


def _job(job: dict[str, Any]) -> str:
    labels = {"initialization": "before the first step", "training_loop": "training", "finalization": "after the last"}
    parts = [f"{label} {duration(job[name]['seconds'])}" for name, label in labels.items()]
    split = ", ".join(f"{name.replace('_', ' ')} {duration(seconds)}" for name, seconds in job["split"].items())
    return f"{', '.join(parts)}{f' ({split})' if split else ''}"


def _throughput(throughput: dict[str, Any]) -> str:
    parts = []
    if "steps_per_second" in throughput:
        parts.append(f"{number(throughput['steps_per_second'])} steps/s")
        parts.append(f"step time p50 {number(throughput['step_ms']['median'])} ms")
        parts.append(f"p95 {number(throughput['step_ms']['p95'])} ms")
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
