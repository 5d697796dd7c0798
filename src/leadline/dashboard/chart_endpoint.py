"""Chart endpoint: a chart of the catalog, with its parameters from the query, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leadline.charts.catalog import CATALOG
from leadline.charts.chart import CatalogChart, ChartView, Names, Sources
from leadline.dashboard.page import open_run, site
from leadline.dashboard.query import parse_integer

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MAX_POINTS: Final = 4000
_MAX_OTHERS: Final = 4
READERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    str | None: str,
    int: parse_integer,
    int | None: parse_integer,
    bool: lambda text: text != "0",
    bool | None: lambda text: text != "0",
    Names: lambda text: [item for item in text.split(",") if item] or None,
    tuple[str, str] | None: lambda text: tuple(text.split(":", 1)) if ":" in text else None,
    Sources: str,
}
"""Readers of a parameter's text by its type; bounds of an interval are part of the view instead."""
_ALIASES: Final = {"of": "collection", "by": "statistic"}
"""Short names in the addresses of pages."""


def chart(request: Request) -> Response:
    """Serve ``/runs/{run}/charts/{chart}.json``."""
    draw = CATALOG.get(request.path_params["chart"])
    if draw is None:
        raise HTTPException(404, "no such chart")
    query, opened = request.query_params, open_run(request)
    parameters = read_parameters(draw, query)
    runs = [opened]
    if "other" in parameters:
        runs += [site(request).run_cache.open(name) for name in dict.fromkeys(query.getlist("other"))][:_MAX_OTHERS]
        parameters["other"] = [member.digest for member in runs[1:]]
    with ExitStack() as locks:
        for member in sorted(runs, key=id):  # in one order, since two requests may compare the same runs
            locks.enter_context(member.lock)
        figure = draw(ChartView(opened.digest, **read_range(query)), **parameters)
    return figure_response(figure)


def read_parameters(draw: CatalogChart[Any], query: QueryParams) -> dict[str, Any]:
    """Return the parameters of a chart that a query contains; invalid ones are ignored, missing names are empty."""
    texts = {_ALIASES.get(name, name): text for name, text in query.items() if text}
    values = {name: "" for name, parameter in draw.parameters.items() if parameter.default is parameter.empty}
    for name, parameter in draw.parameters.items():
        if name in texts and parameter.annotation in READERS:
            value = READERS[parameter.annotation](texts[name])
            values |= {name: value} if value is not None else {}
    return values


def figure_response(figure: Figure) -> Response:
    """Return a figure as JSON."""
    return Response(figure.to_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


def read_range(query: QueryParams) -> dict[str, int]:
    """Return the range and resolution of a view: ``start_ns``, ``end_ns``, ``start_step``, ``end_step``, ``points``.

    Raises:
        HTTPException: 400, a number is invalid.
    """
    numbers: dict[str, int] = {}
    for name in ("start_ns", "end_ns", "start_step", "end_step", "points"):
        try:
            numbers |= {name: int(float(query[name]))} if query.get(name) else {}
        except (ValueError, OverflowError) as error:
            raise HTTPException(400, f"{name} must be a number") from error
    if "points" in numbers:
        numbers["points"] = max(10, min(numbers["points"], _MAX_POINTS))
    return numbers
