"""Compare page: two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from leadline.charts.tensor_charts import scalar_groups
from leadline.dashboard import tensor_view as view
from leadline.dashboard.page import render, site
from leadline.dashboard.rule_view import RuleView, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.find_runs import list_runs
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.formatting import duration, iso
from leadline.records.names import JOB_ENDED
from leadline.records.totals import steps_by_mode

_MAX_LISTED_RUNS: Final = 500
_MAX_CHARTS: Final = 6
"""Maximum number of scalar charts."""
_EXCLUDED = frozenset({"name", "uri", "started_ns", "workers", "nodes", "plan", "settings", "format"})
_MAX_ROWS = 500


def compare(request: Request) -> Response:
    """Serve ``/compare?a=&b=``; without two runs, a form to select them."""
    parameters = request.query_params
    names = [parameters.get("a") or "", parameters.get("b") or ""]
    runs = [run.name for run in list_runs(site(request).run_cache.root)][:_MAX_LISTED_RUNS]
    frame: dict[str, Any] = {"title": "Compare", "runs": runs, "a": names[0], "b": names[1], "has_both": all(names)}
    if not all(names):
        return render(request, "compare.html", frame)
    first, second = (site(request).run_cache.open(name) for name in names)
    with first.lock:
        choices_of_first = _available(first)
    with second.lock:
        choices_of_second = _available(second)
    return render(
        request,
        "compare.html",
        {**frame, **_comparison(first, second), **_options(request, choices_of_first, choices_of_second)},
    )


def _comparison(first: OpenedRun, second: OpenedRun) -> dict[str, Any]:
    return {
        "facts": facts(first.run, second.run),
        "rules": rules(first.run, second.run),
        "configuration": configuration(first.run, second.run),
    }


def _available(opened: OpenedRun) -> dict[str, Any]:
    groups = scalar_groups(opened.digest)
    statistics = view.statistics_by_collection(opened)
    first_collection = next(iter(statistics), None)
    return {
        "scalars": [*groups.get("losses", ()), *groups.get("metrics", ())],
        "tensors": opened.run.tensor_names(),
        "arrays": opened.run.tensor_names(collection=first_collection)[:1] if first_collection else [],
        "statistics": statistics,
    }


def _options(request: Request, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the selectable and the selected scalars, tensors and statistics."""
    parameters = request.query_params
    shared = [name for name in first["scalars"] if name in second["scalars"]]
    scalars = list(dict.fromkeys([*shared, *first["scalars"], *second["scalars"]]))
    names = list(dict.fromkeys([*first["tensors"], *second["tensors"]]))
    collections = [collection for collection in first["statistics"] if collection in second["statistics"]]
    of = parameters.get("of") if parameters.get("of") in collections else (collections[0] if collections else "")
    statistics = view.order_statistics(
        list(dict.fromkeys(statistic for group in first["statistics"].values() for statistic in group))
    )
    default = view.preferred(statistics) if statistics else ""
    by = parameters.get("by") if parameters.get("by") in statistics else default
    name = parameters.get("name") or next(iter(first["arrays"]), names[0] if names else "")
    other = {"other": parameters["b"]}
    return {
        "charts": [(scalar, urlencode({**other, "name": scalar})) for scalar in scalars[:_MAX_CHARTS]],
        "more": max(0, len(scalars) - _MAX_CHARTS),
        "names": names[:5000],
        "name": name,
        "statistics": statistics,
        "by": by,
        "collections": collections,
        "of": of,
        "statistic_query": urlencode({**other, "name": name, "statistic": by}),
        "network_query": urlencode({"of": of, "by": by}),
    }


@dataclass(frozen=True, slots=True)
class FactComparison:
    """A fact or setting of both runs."""

    name: str
    one: str
    other: str

    @property
    def differs(self) -> bool:
        return self.one != self.other


def facts(one: Run, other: Run) -> list[FactComparison]:
    """Compare status, times, workers and steps."""
    facts_of_runs = [_facts(run) for run in (one, other)]
    return [FactComparison(name, facts_of_runs[0][name], facts_of_runs[1][name]) for name in facts_of_runs[0]]


def _facts(run: Run) -> dict[str, str]:
    started, ended = run.manifest.started_ns, run.status_document.ended_ns
    workers = run.worker_documents()
    if ended is None and run.status in JOB_ENDED:  # its agent is gone: the last sign of life
        ended = max((worker.time_ns for worker in workers.values()), default=None)
    return {
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


def configuration(one: Run, other: Run) -> list[FactComparison]:
    """Compare the configurations, differences first."""
    settings = [dict(_flatten(_settings(run))) for run in (one, other)]
    rows = [
        FactComparison(name, settings[0].get(name, "–"), settings[1].get(name, "–"))
        for name in dict.fromkeys([*settings[0], *settings[1]])
    ]
    return sorted(rows, key=lambda row: not row.differs)[:_MAX_ROWS]


def _settings(run: Run) -> Mapping[str, Any]:
    document = run.manifest.to_dict()
    settings = {key: value for key, value in document.items() if key not in _EXCLUDED}
    settings["command"] = " ".join(map(str, document["command"]))
    settings["rules"] = {rule["alias"]: {"rule": rule["rule"], **rule["parameters"]} for rule in document["rules"]}
    settings["actions"] = {str(number): str(action) for number, action in enumerate(run.manifest.actions, 1)}
    settings["profile"] = {window.id or window.kind: window.describe() for window in run.manifest.profile}
    return {**settings, **(document.get("settings") or {})}


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf with its path: ``rules.vanishing_gradient.threshold``."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(map(str, value)) or "none"
    elif value not in ({}, None, ""):
        yield name, str(value)


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """A rule in both runs; None: not evaluated in that run."""

    name: str
    one: RuleView | None
    other: RuleView | None

    @property
    def differs(self) -> bool:
        return (self.one and self.one.verdict) != (self.other and self.other.verdict)


def rules(one: Run, other: Run) -> list[RuleComparison]:
    """Compare the rules, different verdicts first."""
    views = [{view.alias: view for view in rule_views(run)} for run in (one, other)]
    rows = [
        RuleComparison(name, views[0].get(name), views[1].get(name)) for name in dict.fromkeys([*views[0], *views[1]])
    ]
    return sorted(rows, key=lambda row: not row.differs)
