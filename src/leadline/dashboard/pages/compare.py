"""Compare page: two runs side by side."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.charts.tensor_charts import scalar_groups
from leadline.dashboard import run_difference
from leadline.dashboard import tensor_view as view
from leadline.dashboard.page import render, site
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.find_runs import list_runs

_MAX_LISTED_RUNS: Final = 500
_MAX_CHARTS: Final = 6
"""Maximum number of scalar charts."""


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
        "facts": run_difference.facts(first.run, second.run),
        "rules": run_difference.rules(first.run, second.run),
        "configuration": run_difference.configuration(first.run, second.run),
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


ROUTES: Final = [Route("/compare", compare)]
