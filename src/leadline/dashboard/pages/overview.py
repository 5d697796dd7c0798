"""Overview page of a run: status, findings, time breakdown, resource utilization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis.bottleneck import Bottleneck
from leadline.analysis.bucketed_time import bucketed_time_breakdown
from leadline.analysis.job import JobPhases
from leadline.analysis.operators import OperatorSum, top_operators
from leadline.analysis.overview import cost_of, outcome_of, upload_of
from leadline.analysis.resumed import interruptions_with_changes
from leadline.analysis.steps import StepTable
from leadline.analysis.time_breakdown import phases
from leadline.analysis.time_document import Utilization
from leadline.analysis.usage import ALL_NODES, PERCENTILES, SUMMARY_METRICS, cluster_usage, percentiles_of
from leadline.charts import theme
from leadline.charts.tensor_charts import metrics
from leadline.charts.units import metric_label, unit_of
from leadline.charts.usage import device_label
from leadline.dashboard.page import open_run, render
from leadline.dashboard.pages.rules import Links
from leadline.dashboard.rule_view import RuleView, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.documents import RuleSummary
from leadline.records.formatting import phase_label
from leadline.records.loss_roles import logged_losses, role_of
from leadline.records.metric_roles import is_bookkeeping
from leadline.records.names import JOB_ENDED, OF_LOG
from leadline.records.rule_counts import RuleCounts
from leadline.records.totals import sampled, steps_by_mode
from leadline.store.control import read_actions
from leadline.store.disk_limit import read_disk_limit
from leadline.store.run_state import read_rule_summary

_MAX_LOSSES: Final = 4
_SAMPLES: Final = 2_000
_SAMPLED_KINDS: Final = sorted({kind for kind, _, _ in SUMMARY_METRICS})
_MAX_OPERATORS: Final = 12
_MAX_USAGE_ROWS: Final = 200


def overview(request: Request) -> Response:
    """Serve ``/runs/{run}/overview`` and ``/runs/{run}``."""
    opened = open_run(request)
    with opened.lock:
        context = {**_run_context(opened), **_rules_context(opened, request.path_params["run"])}
    return render(request, "overview.html", context, page="overview")


def _run_context(opened: OpenedRun) -> dict[str, object]:
    """Return the context of the job, its time breakdown, resource utilization and monitoring overhead."""
    run, digest = opened.run, opened.digest
    time = bucketed_time_breakdown(run, digest)
    return {
        "run": run,
        "manifest": run.manifest,
        "status": run.status_document,
        "time": time,
        "job": time.job,
        "parts": job_parts(time.job),
        "step_parts": step_parts(time.steps),
        "throughput": time.throughput,
        "bottleneck": bottleneck(run, time.bottleneck),
        "percentiles": list(PERCENTILES),
        "usage": usage_rows([*_cluster_usage(opened, time.usage), *time.usage]),
        "has_gpu": any(row["kind"] == "gpu" for row in time.usage),
        "operations": operations(run),
        "cost": cost(run),
        "upload": upload_of(run),
        "removed": read_disk_limit(run.path).describe(),
        "interruptions": [describe.interruption(what) for what in interruptions_with_changes(run)],
        "trainings": describe.trainings(run.trainings()),
        "warnings": warnings(run, digest.damage),
        "actions": read_actions(run.path),
        "steps": steps_by_mode(run.worker_documents().values()),
        "losses": _losses(opened),
        "is_over": run.status in JOB_ENDED,
        "progress": digest.progress,
        "models": _models(opened),
        "is_log": any(worker.framework == OF_LOG for worker in run.worker_documents().values()),
    }


def _cluster_usage(opened: OpenedRun, usage: Sequence[Utilization]) -> list[Utilization]:
    """Return the utilization of all nodes together, if there are several."""
    if len({row["node"] for row in usage}) < 2:
        return []
    rows = cluster_usage(opened.digest.system(kind=_SAMPLED_KINDS, points=_SAMPLES))
    for row in rows:
        totals = [node["total_bytes"] for node in usage if node["metric"] == row["metric"] and "total_bytes" in node]
        if totals:
            row["total_bytes"] = sum(totals)
    return rows


def bottleneck(run: Run, computed: Bottleneck | None) -> Bottleneck | None:
    """Return the bottleneck as the judge recorded it, so that all surfaces tell the same; otherwise as computed.

    Args:
        computed: From at most some thousand buckets of steps.
    """
    time = (read_rule_summary(run.path) or RuleSummary()).time
    if time is None:
        return computed
    bound = time.bound
    return Bottleneck(bound["kind"], bound["phase"], bound["message"], bound["try"], {}) if bound else None


def _rules_context(opened: OpenedRun, name: str) -> dict[str, object]:
    views, outcome = rule_views(opened.run), outcome_of(opened.run)
    return {
        "outcome": outcome,
        "is_healthy": outcome.level not in ("fatal", "warning"),
        "groups": (groups := rule_groups(views)),
        "others": counts_without_findings([view for view, _ in groups["without_findings"]]),
        "links": Links(name, opened),
    }


def _models(opened: OpenedRun) -> list[str]:
    """Return the models and optimizers: ``ResNet (36 parameter tensors)``, ``SGD``."""
    documents = opened.run.worker_documents().values()
    optimizers = {optimizer for document in documents for optimizer in document.optimizers}
    return [*describe.models(documents), *sorted(optimizers)]


def _losses(opened: OpenedRun) -> list[str]:
    """Return the first loss, scalars that findings are about, and a scalar of each of the next losses and metrics.

    A loss that was captured and also logged is not shown twice, and what is no result (epochs, speeds) not at all.
    """
    groups, hidden = metrics(opened.digest), _logged_again(opened) | _bookkeeping(opened)
    shown = [*groups.get("losses", {}).values()]
    shown += [names for names in groups.get("metrics", {}).values() if not hidden.issuperset(names)]
    others = list(groups.get("others", {}).values())
    about = {names[0] for names in opened.run.findings()["tensors"].to_pylist() if names}
    named = [names for names in (*shown, *others) if about.intersection(names)]
    selected = [*shown[:1], *named, *(shown[1:] or ([] if shown else others))]
    return list(dict.fromkeys(names[0] for names in selected))[:_MAX_LOSSES]


def _bookkeeping(opened: OpenedRun) -> set[str]:
    infos = opened.run.archive.infos().items()
    return {name for name, info in infos if is_bookkeeping(name, info.collections)}


def _logged_again(opened: OpenedRun) -> set[str]:
    """Return the losses that were logged although they were captured; of validation, if its loss was captured, too."""
    collections = {name: info.collections for name, info in opened.run.archive.infos().items()}
    modes = {mode for name, mode in opened.digest.scalar_names() if "losses" in collections.get(name, ())}
    names = logged_losses(collections)
    return {name for name in names if "eval" in modes or role_of(name, "train")[0] == "train"}


@dataclass(frozen=True, slots=True)
class TimePart:
    """A phase of the job, or of its steps."""

    name: str
    label: str
    seconds: float
    share: float | None
    """Share of the whole."""
    colour: str = ""
    is_inner: bool = False
    """Whether it is part of the phase above it, and has no colour of its own."""


def job_parts(job: JobPhases) -> list[TimePart]:
    """Return initialization with its parts, training loop and finalization."""
    total = job.seconds
    if job.loop_started_ns is None:
        return []

    def part(name: str, seconds: float, *, is_inner: bool = False) -> TimePart:
        colour = "" if is_inner else theme.phase_colour(name)
        return TimePart(name, phase_label(name), seconds, seconds / total if total > 0 else None, colour, is_inner)

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


def step_parts(steps: StepTable) -> list[TimePart]:
    """Return the phases of the training steps, the longest first."""
    return [
        TimePart(name := row["phase"], phase_label(name), row["seconds"], row["share"], theme.phase_colour(name))
        for row in phases(steps)
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
    total_bytes: int | None = None
    """What a rate adds up to; None: it is no rate."""


def usage_rows(rows: Sequence[Utilization]) -> list[Usage]:
    """Return one row per resource, node by node.

    Args:
        rows: From ``analysis.usage.usage``.
    """
    usage = []
    for row in sorted(rows, key=_usage_order)[:_MAX_USAGE_ROWS]:
        unit = unit_of(row["metric"], max(row["max"], 1.0))
        values = tuple(value * unit.factor for value in percentiles_of(row))
        total = row.get("total_bytes")
        usage.append(Usage(row["node"], _resource_label(row), unit.name, row["samples"], values, total))
    return usage


def _resource_label(row: Utilization) -> str:
    """Return ``CPU``, ``GPU 1`` or ``GPU memory, GPU 1``."""
    label = metric_label(row["kind"], row["metric"])
    if row["device"] in ("total", "job"):
        return label
    if row["device"] == "all":
        return f"{label}, all devices"
    device = device_label(row["kind"], row["device"])
    return device if device.startswith(f"{label} ") else f"{label}, {device}"


_KINDS: Final = ("cpu", "gpu", "memory", "network", "disk", "process")


def _usage_order(row: Utilization) -> tuple[Any, ...]:
    kind = _KINDS.index(row["kind"]) if row["kind"] in _KINDS else len(_KINDS)
    metric_order = (row["metric"] != "utilization_percent", row["metric"])
    return row["node"] != ALL_NODES, natural_sort_key(row["node"]), kind, metric_order, natural_sort_key(row["device"])


def operations(run: Run) -> dict[str, list[OperatorSum]]:
    """Return the top operators on the CPU and the GPU; empty if no operators were recorded."""
    try:
        table = run.operators(("operator", "phase", "module", "device"))
    except LeadlineError:
        return {}
    operators = {name: top_operators(table, device=name, limit=_MAX_OPERATORS) for name in ("cpu", "gpu")}
    return {name: rows for name, rows in operators.items() if rows}


def rule_groups(views: Sequence[RuleView]) -> dict[str, list[tuple[RuleView, list[RuleView]]]]:
    """Divide the rules that apply into ``with_findings`` (or an error) and ``without_findings``.

    Each comes with the rules whose findings follow from its own; these are in no group themselves.
    """
    views = [view for view in views if view.verdict != "not_applicable"]
    aliases = {view.alias for view in views}
    effects: dict[str, list[RuleView]] = {}
    for view in views:
        if view.explained_by in aliases and view.findings:
            effects.setdefault(str(view.explained_by), []).append(view)
    folded = [view for group in effects.values() for view in group]
    groups: dict[str, list[tuple[RuleView, list[RuleView]]]] = {"with_findings": [], "without_findings": []}
    for view in views:
        if view not in folded:
            has_issue = view.verdict in ("fired", "error") or bool(view.findings)
            group = groups["with_findings" if has_issue else "without_findings"]
            group.append((view, effects.get(view.alias, [])))
    return groups


def counts_without_findings(views: Sequence[RuleView]) -> str:
    """Return ``23 rules clear, 4 undecided``."""
    clear = sum(view.verdict == "clear" for view in views)
    return RuleCounts(clear=clear, undecided=len(views) - clear).words()


def cost(run: Run) -> dict[str, object]:
    """Return the monitoring overhead, and what was sampled less often to stay within the budget."""
    workers = list(run.worker_documents().values())
    return {**cost_of(run.path, workers), "sampling": describe.sampling(sampled(workers))}


def warnings(run: Run, damage: Sequence[str] = ()) -> list[str]:
    """Return one line for each damaged file, dropped data, disabled capture and note."""
    lines = [f"damaged: {message}" for message in damage]
    for name, document in run.worker_documents().items():
        lines += [f"{name}: {line}" for line in (*describe.problems(document).values(), *document.notes)]
    return lines
