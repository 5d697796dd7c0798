"""Where the time of a run went, as a block of text."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.console import number
from leadline.records.formatting import duration, share

_MOST_PHASES: Final = 6
_LEAST_SHARE: Final = 0.005


def time_block(time: dict[str, Any]) -> RenderableType | None:
    """The phases with their shares, what bound the run, and what to try first; None: no step was timed.

    Args:
        time: As ``leadline show --json`` has it.
    """
    if not time["phases"]:
        return None
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("phases", format_phases(time["phases"])),
        ("job", _job(time["job"])),
        ("pace", _pace(time["throughput"])),
        ("bound by", _bound(time["bound"])),
        ("try", time["bound"]["try"] if time["bound"] else ""),
    ):
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return Group(Text("where the time went"), Padding(table, (0, 0, 0, 2)))


def format_phases(phases: list[dict[str, Any]]) -> str:
    """``data 62 %, forward 20 % …``."""
    told = [each for each in phases[:_MOST_PHASES] if each["share"] >= _LEAST_SHARE] or phases[:1]
    return ", ".join(f"{each['phase']} {share(each['share'])}" for each in told)


def _bound(bound: dict[str, Any] | None) -> str:
    return f"{bound['kind']}: {bound['message']}" if bound else ""


def _job(job: dict[str, Any]) -> str:
    names = {"initialization": "before the first step", "training_loop": "training", "finalization": "after the last"}
    told = [f"{words} {duration(job[name]['seconds'])}" for name, words in names.items()]
    split = ", ".join(f"{name.replace('_', ' ')} {duration(each)}" for name, each in job["split"].items())
    return f"{', '.join(told)}{f' ({split})' if split else ''}"


def _pace(throughput: dict[str, Any]) -> str:
    told = []
    if "steps_per_second" in throughput:
        told.append(f"{number(throughput['steps_per_second'])} steps/s")
        told.append(f"median {number(throughput['step_ms']['median'])} ms")
        told.append(f"95 % below {number(throughput['step_ms']['p95'])} ms")
    if "samples_per_second" in throughput:
        told.append(f"{number(throughput['samples_per_second'])} samples/s")
    if "flops_per_second" in throughput:
        told.append(_flops(throughput["flops_per_second"]))
    if "mfu" in throughput:
        told.append(f"{share(throughput['mfu'])} of the device's peak")
    return ", ".join(told)


def _flops(per_second: float) -> str:
    """``3.1 TFLOP/s``."""
    units = (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6), ("kFLOP/s", 1e3))
    unit, size = next((each for each in units if per_second >= each[1]), units[-1])
    return f"{number(per_second / size)} {unit}"
