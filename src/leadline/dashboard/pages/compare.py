"""Compare page: two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard import run_difference, tensor_charts
from leadline.dashboard import tensor_view as view
from leadline.dashboard.charts import Chart, ChartQuery, read_chart_query
from leadline.dashboard.page import render, site
from leadline.dashboard.run_cache import OpenedRun
from leadline.figures import scalars, theme
from leadline.reader.find_runs import list_runs

if TYPE_CHECKING:
    import pyarrow as pa
    from plotly.graph_objects import Figure

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
    groups = tensor_charts.scalar_groups(opened)
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
    preferred = next(
        (statistic for statistic in ("abs_mean", "l2") if statistic in statistics), statistics[0] if statistics else ""
    )
    by = parameters.get("by") if parameters.get("by") in statistics else preferred
    name = parameters.get("name") or next(iter(first["arrays"]), names[0] if names else "")
    pair = {"a": parameters["a"], "b": parameters["b"]}
    return {
        "charts": [(scalar, urlencode({**pair, "name": scalar})) for scalar in scalars[:_MAX_CHARTS]],
        "more": max(0, len(scalars) - _MAX_CHARTS),
        "names": names[:5000],
        "name": name,
        "statistics": statistics,
        "by": by,
        "collections": collections,
        "of": of,
        "pair": urlencode(pair),
        "statistic_query": urlencode({**pair, "name": name, "statistic": by}),
        "network_query": urlencode({"of": of, "by": by}),
    }


def chart(request: Request) -> Response:
    """Serve ``/compare/charts/scalar.json?a=&b=&name=``; with ``statistic=`` the statistic of a tensor."""
    query, parameters = read_chart_query(request.query_params), request.query_params
    if not (parameters.get("a") and parameters.get("b") and parameters.get("name")):
        raise HTTPException(400, "a, b and name are required")
    runs = [site(request).run_cache.open(parameters[key]) for key in ("a", "b")]
    figure = _figure(query, [parameters["a"], parameters["b"]], runs)
    return Response(figure.to_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


def _figure(query: ChartQuery, names: list[str], runs: list[OpenedRun]) -> Figure:
    name, statistic = query.get("name") or "", query.get("statistic") or "value"
    labels = names if names[0] != names[1] else [names[0], f"{names[1]} (2)"]
    tables = {label: _table(opened, name, statistic, query) for label, opened in zip(labels, runs, strict=True)}
    label = "value" if statistic == "value" else theme.plain_text(statistic, 40)
    title = theme.plain_text(name) if statistic == "value" else f"{label} of {theme.plain_text(name, 60)}"
    is_log = query.get("scale") == "log"
    return scalars.compare(tables, title=title, y=label, is_log=is_log, missing="captured in neither run")


def _table(opened: OpenedRun, name: str, statistic: str, query: ChartQuery) -> pa.Table:
    with opened.lock:
        return opened.digest.statistic(
            name,
            statistic,
            query.get("mode"),
            tensor_charts.first_worker(opened, query),
            query.start_step,
            query.end_step,
            query.points,
        )


ROUTES: Final = [Route("/compare", compare), Route("/compare/charts/scalar.json", chart)]
CHARTS: Final[dict[str, Chart]] = {}
