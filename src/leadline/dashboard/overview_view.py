"""View of the Overview page: job phases, resource utilization, top operators, monitoring overhead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.analysis.cluster_usage import ALL_NODES
from leadline.analysis.job import JobPhases
from leadline.analysis.operators import top_operators
from leadline.analysis.overview import cost_of
from leadline.analysis.usage import PERCENTILES
from leadline.charts.units import metric_label, unit_of
from leadline.charts.usage import device_label
from leadline.dashboard.number_format import phase_label
from leadline.dashboard.rule_view import RuleView
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.totals import throttled

_MAX_OPERATORS: Final = 12
_MAX_USAGE_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class JobPart:
    """A phase of the job."""

    name: str
    label: str
    seconds: float
    share: float | None
    """Share of the job's duration."""
    is_inner: bool = False
    """Whether it is part of the phase above it."""


def job_parts(job: JobPhases) -> list[JobPart]:
    """Return initialization with its parts, training loop and finalization."""
    total = job.seconds
    if job.loop_started_ns is None:
        return []

    def part(name: str, seconds: float, *, is_inner: bool = False) -> JobPart:
        return JobPart(name, phase_label(name), seconds, seconds / total if total > 0 else None, is_inner)

    initialization_parts = [
        part(name, job.split[name], is_inner=True) for name in ("imports", "setup") if name in job.split
    ]
    rest = job.initialization_seconds - sum(part.seconds for part in initialization_parts)
    if initialization_parts and rest > 0:
        initialization_parts.append(part("process startup", rest, is_inner=True))
    first_step = [part("first_step", job.split["first_step"], is_inner=True)] if "first_step" in job.split else []
    return [
        part("initialization", job.initialization_seconds),
        *initialization_parts,
        part("training_loop", job.loop_seconds),
        *first_step,
        part("finalization", job.finalization_seconds),
    ]


@dataclass(frozen=True, slots=True)
class Usage:
    """Utilization of one resource of a node."""

    node: str
    metric: str
    unit: str
    samples: int
    values: tuple[float, ...]
    """Minimum, percentiles and maximum."""


def usage_rows(rows: Sequence[dict[str, Any]]) -> list[Usage]:
    """Return one row per resource, node by node.

    Args:
        rows: From ``analysis.usage.usage``.
    """
    usage = []
    for row in sorted(rows, key=_usage_order)[:_MAX_USAGE_ROWS]:
        unit = unit_of(row["metric"], max(row["max"], 1.0))
        values = tuple(row[name] * unit.factor for name in PERCENTILES)
        usage.append(Usage(row["node"], _resource_label(row), unit.name, row["samples"], values))
    return usage


def _resource_label(row: dict[str, Any]) -> str:
    """Return ``CPU``, ``GPU 1`` or ``GPU memory, GPU 1``."""
    label = metric_label(row["kind"], row["metric"])
    if row["device"] in ("total", "job"):
        return label
    if row["device"] == "all":
        return f"{label}, all devices"
    device = device_label(row["kind"], row["device"])
    return device if device.startswith(f"{label} ") else f"{label}, {device}"


_KINDS: Final = ("cpu", "gpu", "memory", "network", "disk", "process")


def _usage_order(row: dict[str, Any]) -> tuple[Any, ...]:
    kind = _KINDS.index(row["kind"]) if row["kind"] in _KINDS else len(_KINDS)
    metric_order = (row["metric"] != "utilization_percent", row["metric"])
    return row["node"] != ALL_NODES, natural_sort_key(row["node"]), kind, metric_order, natural_sort_key(row["device"])


def operations(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return the top operators on the CPU and the GPU; empty if no operators were recorded."""
    try:
        table = run.operators(("operator", "phase", "module", "device"))
    except LeadlineError:
        return {}
    operators = {name: top_operators(table, device=name, limit=_MAX_OPERATORS) for name in ("cpu", "gpu")}
    return {name: rows for name, rows in operators.items() if rows}


def rule_groups(views: Sequence[RuleView]) -> dict[str, list[RuleView]]:
    """Divide rules into ``with_findings`` (or an error) and ``without_findings``."""
    has_issue = [view.verdict in ("fired", "error") or bool(view.findings) for view in views]
    return {
        "with_findings": [view for view, is_issue in zip(views, has_issue, strict=True) if is_issue],
        "without_findings": [view for view, is_issue in zip(views, has_issue, strict=True) if not is_issue],
    }


def cost(run: Run) -> dict[str, Any]:
    """Return the monitoring overhead, and what was throttled to stay within the budget."""
    workers = list(run.worker_documents().values())
    return {**cost_of(run.path, workers), "throttling": describe.throttling(throttled(workers))}


def warnings(run: Run, damage: Sequence[str] = ()) -> list[str]:
    """Return one line for each damaged file, dropped data, disabled capture and note."""
    lines = [f"damaged: {message}" for message in damage]
    for name, document in run.worker_documents().items():
        lines += [f"{name}: {line}" for line in (*describe.problems(document).values(), *document.notes)]
    return lines
