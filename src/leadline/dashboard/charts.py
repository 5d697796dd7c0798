"""Chart endpoint: a chart name and query to a Plotly figure as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leadline.dashboard.page import open_run
from leadline.dashboard.run_cache import OpenedRun

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True)
class ChartQuery:
    """Query of a chart; times in ns since the epoch, None: unbounded."""

    start_ns: int | None = None
    end_ns: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    points: int = 600
    """Maximum number of points, by the width of the chart."""
    other: Mapping[str, str] | None = None
    """All other query parameters."""

    def get(self, key: str) -> str | None:
        """Return a further query parameter; None: absent or empty."""
        return (self.other or {}).get(key) or None


Chart = Callable[[OpenedRun, ChartQuery], "Figure"]
"""Function that draws one chart of a run; called with the run's lock held."""

_NUMBERS = ("start_ns", "end_ns", "start_step", "end_step", "points")
_MAX_POINTS = 4000


def read_chart_query(parameters: QueryParams) -> ChartQuery:
    """Parse query parameters.

    Raises:
        HTTPException: 400, a number is invalid.
    """
    numbers: dict[str, Any] = {}
    for name in _NUMBERS:
        if parameters.get(name):
            try:
                numbers[name] = int(float(parameters[name]))
            except (ValueError, OverflowError) as error:
                raise HTTPException(400, f"{name} must be a number") from error
    if "points" in numbers:
        numbers["points"] = max(10, min(numbers["points"], _MAX_POINTS))
    return ChartQuery(**numbers, other={key: value for key, value in parameters.items() if key not in _NUMBERS})


def chart_endpoint(charts: Mapping[str, Chart]) -> Callable[[Request], Response]:
    """Return the endpoint of ``/runs/{run}/charts/{chart}.json``."""

    def respond(request: Request) -> Response:
        draw = charts.get(request.path_params["chart"])
        if draw is None:
            raise HTTPException(404, "no such chart")
        query, opened = read_chart_query(request.query_params), open_run(request)
        with opened.lock:
            figure = draw(opened, query)
        return Response(figure.to_json(), media_type="application/json", headers={"Cache-Control": "no-store"})

    return respond
