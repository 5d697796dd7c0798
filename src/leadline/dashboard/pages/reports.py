"""The page Reports of a run: what there is, in place, for download, and made anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from leadline.analysis.trees import is_of_trees
from leadline.dashboard.charts import Chart
from leadline.dashboard.page import opened, render, site
from leadline.errors import RunNotFoundError
from leadline.store import layout

PRODUCTS: Final = {
    "report": "Everything: training, profiling, and boosted trees where the run is of them",
    "profiling": "Profiling: where the time went, and how the machine was used",
    "xgboost": "Boosted trees: classes, features, errors",
}
"""The reports that there may be, and what each holds."""
_PATIENCE_SECONDS: Final = 300.0
_MAKING: Final = threading.BoundedSemaphore(2)
"""So many are made at once, in processes of their own."""
_FRAMED: Final = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'",
}
"""A report has an origin of its own: it reads nothing of the dashboard and reaches nothing. Its own policy lets it run
the two scripts that it was made with."""


@dataclass(frozen=True, slots=True)
class Made:
    """A report as the page tells of it."""

    name: str
    about: str
    made_ns: int | None
    """None: it was not made yet."""
    size: int
    has_notebook: bool


def reports(request: Request) -> Response:
    """``/runs/{run}/reports``: the list, and one of them in place."""
    run = opened(request).run
    names = [name for name in PRODUCTS if name != "xgboost" or is_of_trees(run)]
    made = [_made(request, name) for name in names]
    there = [each.name for each in made if each.made_ns is not None]
    wanted = request.query_params.get("show", "")
    shown = wanted if wanted in there else there[0] if there else None
    return render(request, "reports.html", {"reports": made, "shown": shown}, page="reports")


def page(request: Request) -> Response:
    """``…/reports/{product}.html``: a report, to be framed or kept."""
    return _file(request, layout.report_page, "text/html", "html")


def notebook(request: Request) -> Response:
    """``…/reports/{product}.ipynb``: the notebook that makes it anew."""
    return _file(request, layout.report_notebook, "application/x-ipynb+json", "ipynb")


def make(request: Request) -> Response:
    """``POST …/reports/{product}``: make a report anew; the answer says where it is shown."""
    product, run = request.path_params["product"], request.path_params["run"]
    path = site(request).shelf.path(run)
    if product not in PRODUCTS:
        raise HTTPException(404, "there is no such report")
    if not _MAKING.acquire(timeout=_PATIENCE_SECONDS):
        raise HTTPException(503, "other reports are being made; try again in a while")
    try:
        _render(path, product)
    finally:
        _MAKING.release()
    return JSONResponse({"address": f"/runs/{quote(run, safe='')}/reports?show={product}"})


def _render(path: str, product: str) -> None:
    """Have a process make the report.

    Raises:
        HTTPException: It could not, and why.
    """
    command = [sys.executable, "-m", "leadline.reports", path, product]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_PATIENCE_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise HTTPException(504, "making the report takes too long; use: leadline report") from None
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        why = lines[-1].removeprefix("leadline: ") if lines else "it did not say why"
        raise HTTPException(500, f"the report could not be made: {why}")


def _file(request: Request, place: Callable[[str], str], kind: str, ending: str) -> Response:
    product, run = request.path_params["product"], request.path_params["run"]
    if product not in PRODUCTS:
        raise RunNotFoundError("there is no such report")
    path = site(request).shelf.file(run, place(product))
    name = re.sub(r"[^\w.-]+", "_", run).strip("._-")[:100] or "run"
    kept: dict[str, Any] = {}
    if request.query_params.get("download") or ending != "html":
        kept = {"filename": f"{name}-{product}.{ending}"}
    return FileResponse(path, media_type=kind, headers=dict(_FRAMED), **kept)


def _made(request: Request, name: str) -> Made:
    shelf, run = site(request).shelf, request.path_params["run"]
    try:
        found = os.stat(shelf.file(run, layout.report_page(name)))
    except (RunNotFoundError, OSError):
        return Made(name, PRODUCTS[name], None, 0, has_notebook=False)
    return Made(name, PRODUCTS[name], found.st_mtime_ns, found.st_size, has_notebook=_has_notebook(request, name))


def _has_notebook(request: Request, name: str) -> bool:
    try:
        site(request).shelf.file(request.path_params["run"], layout.report_notebook(name))
    except RunNotFoundError:
        return False
    return True


_BASE: Final = "/runs/{run}/reports"
ROUTES: Final = [
    Route(_BASE, reports),
    Route(f"{_BASE}/{{product}}.html", page),
    Route(f"{_BASE}/{{product}}.ipynb", notebook),
    Route(f"{_BASE}/{{product}}", make, methods=["POST"]),
]
CHARTS: Final[dict[str, Chart]] = {}
