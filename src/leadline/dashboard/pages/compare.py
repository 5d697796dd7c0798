"""The page Compare: two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard import run_difference, tensor_charts
from leadline.dashboard import tensor_view as view
from leadline.dashboard.charts import Chart, Question, read_question
from leadline.dashboard.page import render, site
from leadline.dashboard.run_cache import OpenedRun
from leadline.figures import scalars, theme
from leadline.reader.find_runs import list_runs

if TYPE_CHECKING:
    import pyarrow as pa
    from plotly.graph_objects import Figure

_MOST_OFFERED: Final = 500
_MOST_DRAWN: Final = 6
"""So many numbers that both runs have are drawn at once."""


def compare(request: Request) -> Response:
    """``/compare?a=&b=``; without two runs it asks for them."""
    asked = request.query_params
    names = [asked.get("a") or "", asked.get("b") or ""]
    runs = [each.name for each in list_runs(site(request).shelf.root)][:_MOST_OFFERED]
    frame: dict[str, Any] = {"title": "Compare", "runs": runs, "a": names[0], "b": names[1], "has_both": all(names)}
    if not all(names):
        return render(request, "compare.html", frame)
    one, other = (site(request).shelf.open(each) for each in names)
    with one.lock:
        offered = _offered(one)
    with other.lock:
        also = _offered(other)
    return render(request, "compare.html", {**frame, **_beside(one, other), **_choices(request, offered, also)})


def _beside(one: OpenedRun, other: OpenedRun) -> dict[str, Any]:
    return {
        "facts": run_difference.facts(one.run, other.run),
        "rules": run_difference.rules(one.run, other.run),
        "configuration": run_difference.configuration(one.run, other.run),
    }


def _offered(found: OpenedRun) -> dict[str, Any]:
    groups = tensor_charts.scalar_groups(found)
    statistics = view.statistics_by_collection(found)
    first = next(iter(statistics), None)
    return {
        "scalars": [*groups.get("losses", ()), *groups.get("metrics", ())],
        "tensors": found.run.tensor_names(),
        "arrays": found.run.tensor_names(collection=first)[:1] if first else [],
        "statistics": statistics,
    }


def _choices(request: Request, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What can be drawn, and what is."""
    asked = request.query_params
    both = [name for name in one["scalars"] if name in other["scalars"]]
    either = list(dict.fromkeys([*both, *one["scalars"], *other["scalars"]]))
    names = list(dict.fromkeys([*one["tensors"], *other["tensors"]]))
    collections = [each for each in one["statistics"] if each in other["statistics"]]
    of = asked.get("of") if asked.get("of") in collections else (collections[0] if collections else "")
    statistics = view.in_order(list(dict.fromkeys(each for group in one["statistics"].values() for each in group)))
    preferred = next((each for each in ("abs_mean", "l2") if each in statistics), statistics[0] if statistics else "")
    by = asked.get("by") if asked.get("by") in statistics else preferred
    name = asked.get("name") or next(iter(one["arrays"]), names[0] if names else "")
    pair = {"a": asked["a"], "b": asked["b"]}
    return {
        "drawn": [(each, urlencode({**pair, "name": each})) for each in either[:_MOST_DRAWN]],
        "more": max(0, len(either) - _MOST_DRAWN),
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
    """``/compare/charts/scalar.json?a=&b=&name=``, with ``statistic=`` that of a tensor."""
    question, asked = read_question(request.query_params), request.query_params
    if not (asked.get("a") and asked.get("b") and asked.get("name")):
        raise HTTPException(400, "a, b and name are needed")
    found = [site(request).shelf.open(asked[each]) for each in ("a", "b")]
    figure = _figure(question, [asked["a"], asked["b"]], found)
    return Response(figure.to_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


def _figure(question: Question, names: list[str], found: list[OpenedRun]) -> Figure:
    name, statistic = question.get("name") or "", question.get("statistic") or "value"
    labels = names if names[0] != names[1] else [names[0], f"{names[1]} again"]
    tables = {label: _table(each, name, statistic, question) for label, each in zip(labels, found, strict=True)}
    words = "value" if statistic == "value" else theme.plain(statistic, 40)
    title = theme.plain(name) if statistic == "value" else f"{words} of {theme.plain(name, 60)}"
    is_log = question.get("scale") == "log"
    return scalars.compare(tables, title=title, y=words, is_log=is_log, missing="neither run has it")


def _table(found: OpenedRun, name: str, statistic: str, question: Question) -> pa.Table:
    with found.lock:
        return found.digest.statistic(
            name,
            statistic,
            question.get("mode"),
            tensor_charts.first_worker(found, question),
            question.start_step,
            question.end_step,
            question.points,
        )


ROUTES: Final = [Route("/compare", compare), Route("/compare/charts/scalar.json", chart)]
CHARTS: Final[dict[str, Chart]] = {}
