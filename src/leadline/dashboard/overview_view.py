"""What the page Overview says of a run: its parts, its use of the machine, its dearest operators, its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.analysis.cluster_usage import ALL_NODES
from leadline.analysis.job import JobPhases
from leadline.analysis.operators import top_operators
from leadline.analysis.overview import cost_of
from leadline.analysis.usage import PERCENTILES
from leadline.dashboard.phase_labels import phase_words
from leadline.dashboard.rule_view import RuleView
from leadline.errors import LeadlineError
from leadline.figures.units import unit_of, words_of
from leadline.figures.usage import device_words
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.overhead import format_throttling

_MOST_OPERATORS: Final = 12
_MOST_USAGE: Final = 200


@dataclass(frozen=True, slots=True)
class JobPart:
    """A part of the job."""

    name: str
    words: str
    seconds: float
    share: float | None
    """Of the whole job."""
    is_inner: bool = False
    """Whether it is a part of the one above it."""


def job_parts(job: JobPhases) -> list[JobPart]:
    """Initialization with what it consists of, training loop, finalization."""
    whole = job.seconds
    if job.loop_started_ns is None:
        return []

    def part(name: str, seconds: float, *, is_inner: bool = False) -> JobPart:
        return JobPart(name, phase_words(name), seconds, seconds / whole if whole > 0 else None, is_inner)

    before = [part(name, job.split[name], is_inner=True) for name in ("imports", "setup") if name in job.split]
    rest = job.initialization_seconds - sum(each.seconds for each in before)
    if before and rest > 0:
        before.append(part("start of the processes", rest, is_inner=True))
    first = [part("first_step", job.split["first_step"], is_inner=True)] if "first_step" in job.split else []
    return [
        part("initialization", job.initialization_seconds),
        *before,
        part("training_loop", job.loop_seconds),
        *first,
        part("finalization", job.finalization_seconds),
    ]


@dataclass(frozen=True, slots=True)
class Usage:
    """How a node used one of its resources."""

    node: str
    what: str
    unit: str
    samples: int
    values: tuple[float, ...]
    """Minimum, percentiles and maximum."""


def usage_rows(rows: Sequence[dict[str, Any]]) -> list[Usage]:
    """A resource a row, node by node.

    Args:
        rows: As ``analysis.usage.usage`` gives them.
    """
    found = []
    for each in sorted(rows, key=_usage_order)[:_MOST_USAGE]:
        unit = unit_of(each["metric"], max(each["max"], 1.0))
        values = tuple(each[name] * unit.factor for name in PERCENTILES)
        found.append(Usage(each["node"], _what(each), unit.name, each["samples"], values))
    return found


def _what(row: dict[str, Any]) -> str:
    """``CPU``, ``GPU 1``, ``GPU memory, GPU 1``."""
    words = words_of(row["kind"], row["metric"])
    if row["device"] in ("total", "job"):
        return words
    if row["device"] == "all":
        return f"{words}, all devices"
    device = device_words(row["kind"], row["device"])
    return device if device.startswith(f"{words} ") else f"{words}, {device}"


_KINDS: Final = ("cpu", "gpu", "memory", "network", "disk", "process")


def _usage_order(row: dict[str, Any]) -> tuple[Any, ...]:
    kind = _KINDS.index(row["kind"]) if row["kind"] in _KINDS else len(_KINDS)
    place = (row["metric"] != "utilization_percent", row["metric"])
    return row["node"] != ALL_NODES, natural_sort_key(row["node"]), kind, place, natural_sort_key(row["device"])


def operations(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The operators that take most on the CPU and on the GPU; empty: no detailed window is there."""
    try:
        table = run.operators(("operator", "phase", "module", "device"))
    except LeadlineError:
        return {}
    found = {name: top_operators(table, device=name, most=_MOST_OPERATORS) for name in ("cpu", "gpu")}
    return {name: rows for name, rows in found.items() if rows}


def rule_groups(views: Sequence[RuleView]) -> dict[str, list[RuleView]]:
    """``found``: what found something or failed itself; ``quiet``: the others."""
    is_loud = [each.verdict in ("fired", "error") or bool(each.findings) for each in views]
    return {
        "found": [each for each, loud in zip(views, is_loud, strict=True) if loud],
        "quiet": [each for each, loud in zip(views, is_loud, strict=True) if not loud],
    }


def cost(run: Run) -> dict[str, Any]:
    """What watching cost, and what was thinned to keep to the budget."""
    found = cost_of(run.path, list(run.worker_documents().values()))
    return {**found, "spoken": format_throttling(found["thinned"])}


def warnings(run: Run, damage: Sequence[str] = ()) -> list[str]:
    """What was lost, what went off, what is damaged: a line each."""
    lines = [f"damaged: {each}" for each in damage]
    for name, document in run.worker_documents().items():
        if lost := document.get("lost"):
            lines.append(f"{name}: from step {lost['since_step']:,} on something was not written: {lost['reason']}")
        if off := document.get("off"):
            lines.append(f"{name}: capture went off at step {off['step']:,}: {off['error']}")
        lines += [f"{name}: {note}" for note in document.get("notes") or ()]
    return lines
