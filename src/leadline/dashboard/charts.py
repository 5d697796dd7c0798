"""Charts as the page asks for them: a name and a query in, a Plotly figure as JSON out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leadline.dashboard.page import opened
from leadline.dashboard.run_cache import OpenedRun

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True)
class Question:
    """What a chart is asked for; times in ns since the epoch, None: no bound."""

    start_ns: int | None = None
    end_ns: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    points: int = 600
    """How many points wide the screen is."""
    told: Mapping[str, str] | None = None
    """All else that the query says."""

    def get(self, key: str) -> str | None:
        """What the query says under a key; None: nothing."""
        return (self.told or {}).get(key) or None


Chart = Callable[[OpenedRun, Question], "Figure"]
"""Draws one chart of a run; called with the run's lock held."""

_NUMBERS = ("start_ns", "end_ns", "start_step", "end_step", "points")
_MOST_POINTS = 4000


def read_question(query: QueryParams) -> Question:
    """A query as a question.

    Raises:
        HTTPException: 400, it is none.
    """
    numbers: dict[str, Any] = {}
    for name in _NUMBERS:
        if query.get(name):
            try:
                numbers[name] = int(float(query[name]))
            except (ValueError, OverflowError) as error:
                raise HTTPException(400, f"{name} must be a number") from error
    if "points" in numbers:
        numbers["points"] = max(10, min(numbers["points"], _MOST_POINTS))
    return Question(**numbers, told={key: value for key, value in query.items() if key not in _NUMBERS})


def chart_endpoint(charts: Mapping[str, Chart]) -> Callable[[Request], Response]:
    """Answers ``/runs/{run}/charts/{chart}.json``."""

    def answer(request: Request) -> Response:
        draw = charts.get(request.path_params["chart"])
        if draw is None:
            raise HTTPException(404, "there is no such chart")
        question, found = read_question(request.query_params), opened(request)
        with found.lock:
            figure = draw(found, question)
        return Response(figure.to_json(), media_type="application/json", headers={"Cache-Control": "no-store"})

    return answer
