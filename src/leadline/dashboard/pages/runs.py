"""Runs page: all runs of the runs directory."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leadline.analysis.digest import Digest
from leadline.analysis.hyperparameters import all_hyperparameters, captured_hyperparameters, sort_key
from leadline.dashboard.page import render, site
from leadline.dashboard.query import parse_integer
from leadline.dashboard.run_list import SEVERITY, RunRow
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.names import JOB_STATUSES, RULE_STATUSES
from leadline.records.outcome import LEVELS

PAGE_ROWS: Final = 200
"""Runs per page."""
_MAX_COLUMNS: Final = 8
_OF_COLUMN: Final = "value:"
"""Before the name of the hyperparameter by which the list is sorted."""
_COOKIE: Final = "leadline-columns"
"""Holds the columns that were chosen last, written by the page."""
_MAX_SPARKLINES: Final = 24
_SPARKLINE_POINTS: Final = 60
_SPARKLINE_SLOT: Final = threading.Lock()
"""One run at a time is read, so that the run list does not slow other pages."""
_STATUS_ORDER: Final[dict[str, int]] = {status: index for index, status in enumerate(JOB_STATUSES)}
_SORTS: Final[dict[str, Callable[[RunRow], Any]]] = {
    "name": lambda row: row.name.lower(),
    "status": lambda row: _STATUS_ORDER.get(row.status, len(_STATUS_ORDER)),
    "started": lambda row: -row.started_ns,
    "duration": lambda row: -row.seconds,
    "steps": lambda row: -row.steps,
    "rules": lambda row: (LEVELS.index(row.level), _severity(row.worst), -len(row.fired)),
}
"""Sort keys, each in its most useful direction."""


def _severity(status: str) -> int:
    return SEVERITY.index(status) if status in SEVERITY else len(SEVERITY)


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Filter, order and page of the run list."""

    filter_text: str = ""
    status: str = ""
    worst: str = ""
    sort: str = "started"
    is_reversed: bool = False
    page: int = 1
    columns: tuple[str, ...] = ()
    """Hyperparameters that have a column."""

    def link(self, **changes: Any) -> str:
        """Return the URL of the list with changed parameters."""
        parameters = {
            "q": self.filter_text,
            "status": self.status,
            "rules": self.worst,
            "sort": self.sort if self.sort != "started" else "",
            "reversed": "yes" if self.is_reversed else "",
            "page": "",
            "column": list(self.columns),
            **changes,
        }
        query = urlencode({key: value for key, value in parameters.items() if value}, doseq=True)
        return f"/?{query}" if query else "/"

    def sort_link(self, sort: str) -> str:
        """Return the URL of the list sorted by a column; reversed if it is already sorted by it."""
        is_reversed = self.sort == sort and not self.is_reversed
        return self.link(sort=sort if sort != "started" else "", reversed="yes" if is_reversed else "")


def read_run_query(query: QueryParams) -> RunQuery:
    """Parse query parameters; unknown values are ignored."""
    status, worst, sort, page = (query.get(key, "") for key in ("status", "rules", "sort", "page"))
    columns = _columns(query.getlist("column"))
    return RunQuery(
        filter_text=query.get("q", "").strip()[:200],
        status=status if status in JOB_STATUSES else "",
        worst=worst if worst in RULE_STATUSES else "",
        sort=sort if sort in _SORTS or sort.removeprefix(_OF_COLUMN) in columns else "started",
        is_reversed=query.get("reversed") == "yes",
        page=parse_integer(page) or 1,
        columns=columns,
    )


def select(rows: list[RunRow], query: RunQuery) -> list[RunRow]:
    """Return the matching rows in order; all words must occur in name, command, fired rules, outcome, note or tags."""
    words = query.filter_text.lower().split()
    selected = [
        row
        for row in rows
        if (not query.status or row.status == query.status)
        and (not query.worst or row.worst == query.worst)
        and all(word in _searched_text(row) for word in words)
    ]
    selected.sort(key=lambda row: (-row.started_ns, row.name))
    return sorted(selected, key=_SORTS.get(query.sort, _SORTS["started"]), reverse=query.is_reversed)


def _searched_text(row: RunRow) -> str:
    return " ".join([row.name, row.command, *row.fired, row.word, row.outcome, row.notes.note, *row.notes.tags]).lower()


def runs(request: Request) -> Response:
    """Serve ``/``."""
    rows, query = site(request).run_list.rows(), _query(request)
    selected = select(rows, query)
    can_sort = len(selected) <= PAGE_ROWS  # the settings of optimizers are read of the runs on the page only
    values = _Values(site(request).run_cache.root, query.columns)
    if can_sort and query.sort not in _SORTS:
        name = query.sort.removeprefix(_OF_COLUMN)
        selected.sort(key=lambda row: sort_key(values.of(row).get(name)), reverse=query.is_reversed)
    pages = max(1, -(-len(selected) // PAGE_ROWS))
    page = min(query.page, pages)
    context = {
        "title": "Runs",
        "root": site(request).run_cache.root,
        "count": len(rows),
        "match_count": len(selected),
        "query": query,
        "rows": [(row, values.of(row)) for row in selected[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]],
        "hyperparameters": {name: query.sort_link(f"{_OF_COLUMN}{name}") if can_sort else "" for name in query.columns},
        "of_column": _OF_COLUMN,
        "current_page": page,
        "page_count": pages,
        "now_ns": time.time_ns(),
        "statuses": JOB_STATUSES,
        "rule_statuses": RULE_STATUSES,
        "columns": {
            "name": "Run",
            "rules": "Outcome",
            "status": "Status",
            "started": "Age",
            "duration": "Duration",
            "steps": "Steps",
        },
    }
    return render(request, "runs.html", context)


def columns(request: Request) -> Response:
    """Serve ``/columns``: the hyperparameters that can have a column, those that differ between runs first.

    Those of optimizers are of the latest runs.
    """
    state, chosen = site(request), _query(request).columns
    rows = sorted(state.run_list.rows(), key=lambda row: -row.started_ns)
    values: dict[str, set[str]] = {name: set() for name in chosen}
    for index, row in enumerate(rows):
        of_row = _Values(state.run_cache.root, ("*",)).of(row) if index < _MAX_SPARKLINES else row.given
        for name, value in of_row.items():
            values.setdefault(name, set()).add(value)
    names = sorted(values, key=str.lower)
    groups = {
        "Hyperparameters that differ": [name for name in names if len(values[name]) > 1],
        "Other hyperparameters": [name for name in names if len(values[name]) <= 1],
    }
    return render(request, "columns.html", {"groups": groups, "chosen": chosen})


def _query(request: Request) -> RunQuery:
    """Return the query of a request; without columns, those that were chosen last."""
    query = read_run_query(request.query_params)
    if query.columns or "column" in request.query_params:
        return query
    return replace(query, columns=_columns(unquote(request.cookies.get(_COOKIE, "")).split(",")))


def _columns(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))[:_MAX_COLUMNS]


@dataclass(frozen=True, slots=True)
class _Values:
    """Reads the hyperparameters of rows, if there are columns for them."""

    root: str
    columns: tuple[str, ...]

    def of(self, row: RunRow) -> dict[str, str]:
        if all(name in row.given for name in self.columns):
            return row.given
        with _SPARKLINE_SLOT:
            captured = captured_hyperparameters(os.path.join(self.root, row.name), row.version)
        return all_hyperparameters(row.given, captured)


def sparklines(request: Request) -> Response:
    """Serve ``/sparklines.json?run=NAME&run=NAME``: the loss sparklines of a few runs."""
    state, response = site(request), {}
    versions = {row.name: row.version for row in state.run_list.rows()}
    for name in request.query_params.getlist("run")[:_MAX_SPARKLINES]:
        if name in versions:
            path = os.path.join(state.run_cache.root, name)
            response[name] = {"version": versions[name], "values": _losses(path, versions[name])}
    return JSONResponse(response)


def _losses(path: str, version: int) -> list[float | None]:
    with _SPARKLINE_SLOT:
        return _read_losses(path, version)


@lru_cache(maxsize=20_000)
def _read_losses(path: str, version: int) -> list[float | None]:
    """Return the first loss over steps; None where not finite, [] if there is no loss.

    Args:
        version: Differs when the run has changed.
    """
    try:
        digest = Digest(Run(path))
        name, mode = next(iter(digest.scalar_names()))
        values = digest.scalar(name, mode, points=_SPARKLINE_POINTS)["value"].to_pylist()
    except (LeadlineError, OSError, StopIteration):
        return []  # nothing to draw; the run's page shows the error
    return [float(f"{value:.4g}") if value is not None and math.isfinite(value) else None for value in values]
