"""Compare page: two to five runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis import comparison
from leadline.analysis.comparison import ComparedRow, ComparedScalar, compared, settings
from leadline.analysis.overview import outcome_of
from leadline.charts.tensor_charts import scalar_groups
from leadline.dashboard import tensor_view as view
from leadline.dashboard.page import level_of, render, site
from leadline.dashboard.rule_view import RuleView, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.find_runs import list_runs
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.formatting import duration, iso
from leadline.records.names import JOB_ENDED
from leadline.records.totals import steps_by_mode

MAX_RUNS: Final = 5
_MAX_LISTED_RUNS: Final = 500
_MAX_CHARTS: Final = 6
"""Maximum number of scalar charts."""
_MAX_ROWS = 500


def compare(request: Request) -> Response:
    """Serve ``/compare?run=&run=``; with fewer than two runs, a form to select them."""
    names = [name for name in request.query_params.getlist("run") if name][:MAX_RUNS]
    known = [run.name for run in list_runs(site(request).run_cache.root)][:_MAX_LISTED_RUNS]
    fields = [*names, *[""] * (max(2, min(len(names) + 1, MAX_RUNS)) - len(names))]
    frame: dict[str, object] = {"title": "Compare", "known_runs": known, "names": names, "fields": fields}
    if len(names) < 2:
        return render(request, "compare.html", frame)
    opened = [site(request).run_cache.open(name) for name in names]
    available, scalars, hyperparameters = [], [], []
    for member in opened:
        with member.lock:
            available.append(_available(member))
            scalars.append(comparison.scalar_summaries(member.digest))
            hyperparameters.append(comparison.hyperparameters_of(member.digest))
    runs = [member.run for member in opened]
    tables = {
        "facts": facts(runs),
        "levels": [level_of(run.path) for run in runs],
        "last_values": [_last_values(scalar) for scalar in comparison.scalars(scalars)[:_MAX_ROWS]],
        "hyperparameters": comparison.hyperparameters(hyperparameters)[:_MAX_ROWS],
        "rules": rules(runs),
        "configuration": settings(runs)[:_MAX_ROWS],
    }
    return render(request, "compare.html", {**frame, **tables, **_options(request.query_params, names, available)})


def _last_values(scalar: ComparedScalar) -> ComparedRow:
    """Return a loss or metric as a row: its level with minimum and maximum."""
    return ComparedRow(scalar.label, scalar.texts)


class Comparable(TypedDict):
    """What of a run can be compared with others."""

    scalars: list[str]
    tensors: list[str]
    arrays: list[str]
    """Tensors of which a distribution can be shown."""
    statistics: dict[str, list[str]]
    """By collection."""


def _available(opened: OpenedRun) -> Comparable:
    groups = scalar_groups(opened.digest)
    statistics = view.statistics_by_collection(opened)
    first_collection = next(iter(statistics), None)
    return {
        "scalars": [*groups.get("losses", ()), *groups.get("metrics", ())],
        "tensors": opened.run.tensor_names(),
        "arrays": opened.run.tensor_names(collection=first_collection)[:1] if first_collection else [],
        "statistics": statistics,
    }


def _options(parameters: QueryParams, runs: Sequence[str], available: Sequence[Comparable]) -> dict[str, object]:
    """Return the selectable and the selected scalars, tensors and statistics."""
    first, *others = available
    shared = [name for name in first["scalars"] if all(name in other["scalars"] for other in others)]
    scalars = list(dict.fromkeys([*shared, *(name for run in available for name in run["scalars"])]))
    tensors = list(dict.fromkeys(name for run in available for name in run["tensors"]))
    collections = [name for name in first["statistics"] if all(name in other["statistics"] for other in others)]
    of = parameters.get("of") if parameters.get("of") in collections else (collections[0] if collections else "")
    statistics = view.order_statistics(
        list(dict.fromkeys(statistic for group in first["statistics"].values() for statistic in group))
    )
    of_collection = first["statistics"].get(of) or statistics
    default = view.preferred(of_collection) if of_collection else ""
    by = parameters.get("by") if parameters.get("by") in statistics else default
    name = parameters.get("name") or next(iter(first["arrays"]), tensors[0] if tensors else "")
    other = [("other", run) for run in runs[1:]]
    return {
        "charts": [(scalar, urlencode([*other, ("name", scalar)])) for scalar in scalars[:_MAX_CHARTS]],
        "more": max(0, len(scalars) - _MAX_CHARTS),
        "tensors": tensors[:5000],
        "name": name,
        "statistics": statistics,
        "by": by,
        "collections": collections,
        "of": of,
        "others_query": urlencode(other),
        "statistic_query": urlencode([*other, ("name", name), ("statistic", by)]),
        "network_query": urlencode({"of": of, "by": by}),
    }


def facts(runs: Sequence[Run]) -> list[ComparedRow]:
    """Compare outcome, status, times, workers and steps."""
    return compared([_facts(run) for run in runs])


def _facts(run: Run) -> dict[str, str]:
    started, ended = run.manifest.started_ns, run.status_document.ended_ns
    workers = run.worker_documents()
    if ended is None and run.status in JOB_ENDED:  # its agent is gone: the last sign of life
        ended = max((worker.time_ns for worker in workers.values()), default=None)
    return {
        "outcome": outcome_of(run).brief,
        "status": run.status,
        "started": iso(started) or "–",
        "duration": _format_duration(run.status, started, ended),
        "workers": str(len(run.workers())),
        "steps": describe.steps(steps_by_mode(workers.values())),
    }


def _format_duration(status: str, started_ns: int, ended_ns: int | None) -> str:
    if status not in JOB_ENDED:
        return "running"
    return "–" if ended_ns is None else duration(max(0, ended_ns - started_ns) / 1e9)


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """A rule in each run; None: not evaluated in that run."""

    name: str
    views: tuple[RuleView | None, ...]

    @property
    def differs(self) -> bool:
        return len({view and view.verdict for view in self.views}) > 1

    @property
    def is_shown(self) -> bool:
        """Whether the page shows it at once: the runs differ, or it fired in all of them."""
        return self.differs or any(view is not None and view.verdict == "fired" for view in self.views)


def rules(runs: Sequence[Run]) -> list[RuleComparison]:
    """Compare the rules, different verdicts first."""
    views = [{view.alias: view for view in rule_views(run)} for run in runs]
    names = dict.fromkeys(name for of_run in views for name in of_run)
    rows = [RuleComparison(name, tuple(of_run.get(name) for of_run in views)) for name in names]
    return sorted(rows, key=lambda row: not row.differs)
