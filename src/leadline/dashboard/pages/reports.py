"""Reports page of a run: view, download and generate reports."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from leadline.analysis.trees import is_boosted_run
from leadline.dashboard.page import open_run, render, site
from leadline.errors import RunNotFoundError
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.store import layout

PRODUCTS: Final = {
    "report": ("Full report", "outcome, findings, training, time and hardware"),
    "profiling": ("Profiling", "time breakdown and resource utilization"),
    "xgboost": ("Boosted trees", "classes, features, errors"),
}
"""Title and description of the available reports."""
_TIMEOUT_SECONDS: Final = 300.0
_GENERATION_SLOTS: Final = threading.BoundedSemaphore(2)
"""Maximum number of reports generated at once, each in its own process."""
_FRAMED: Final = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'",
}
"""A report is sandboxed in its own origin: it can neither read the dashboard nor make requests. Inline scripts are
allowed because the report contains its two scripts."""


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A report in the list."""

    name: str
    title: str
    description: str
    generated_ns: int | None
    """None: not generated yet."""
    size: int
    has_notebook: bool


def reports(request: Request) -> Response:
    """Serve ``/runs/{run}/reports``: the list, and one report embedded."""
    run = open_run(request).run
    names = [name for name in PRODUCTS if name != "xgboost" or is_boosted_run(run)]
    entries = [_entry(request, name) for name in names]
    available = [report.name for report in entries if report.generated_ns is not None]
    requested = request.query_params.get("show", "")
    selected = requested if requested in available else available[0] if available else None
    return render(request, "reports.html", {"reports": entries, "selected": selected}, page="reports")


def page(request: Request) -> Response:
    """Serve ``…/reports/{product}.html``: a report, embedded or as a download."""
    return _file(request, layout.report_page, "text/html", "html")


def notebook(request: Request) -> Response:
    """Serve ``…/reports/{product}.ipynb``: the notebook that regenerates it."""
    return _file(request, layout.report_notebook, "application/x-ipynb+json", "ipynb")


def generate(request: Request) -> Response:
    """Serve ``POST …/reports/{product}``: generate a report and return the URL of its page."""
    product, run = request.path_params["product"], request.path_params["run"]
    path = site(request).run_cache.path(run)
    if product not in PRODUCTS:
        raise HTTPException(404, "no such report")
    if not _GENERATION_SLOTS.acquire(timeout=_TIMEOUT_SECONDS):
        raise HTTPException(503, "other reports are being generated; try again later")
    try:
        _run_report(path, product)
    finally:
        _GENERATION_SLOTS.release()
    return JSONResponse({"address": f"/runs/{quote(run, safe='')}/reports?show={product}"})


def _run_report(path: str, product: str) -> None:
    """Generate a report in a separate process.

    Raises:
        HTTPException: Generation failed or timed out.
    """
    command = own_command("leadline.reports", path, product)
    child = Child(command, own_environment(), keeps_errors=True)
    try:
        code = child.wait_for(_TIMEOUT_SECONDS)
        if code is None:
            raise HTTPException(504, "generating the report takes too long; use: leadline report")
        if code:
            raise HTTPException(500, f"the report could not be generated: {child.error_line}")
    finally:
        child.close()


def _file(request: Request, path_of: Callable[[str], str], media_type: str, suffix: str) -> Response:
    product, run = request.path_params["product"], request.path_params["run"]
    if product not in PRODUCTS:
        raise RunNotFoundError("no such report")
    path = site(request).run_cache.file(run, path_of(product))
    name = re.sub(r"[^\w.-]+", "_", run).strip("._-")[:100] or "run"
    options: dict[str, str] = {}
    if request.query_params.get("download") or suffix != "html":
        options = {"filename": f"{name}-{product}.{suffix}"}
    return FileResponse(path, media_type=media_type, headers=dict(_FRAMED), **options)


def _entry(request: Request, name: str) -> ReportEntry:
    page = _stat(request, layout.report_page(name))
    if page is None:
        return ReportEntry(name, *PRODUCTS[name], None, 0, has_notebook=False)
    has_notebook = _stat(request, layout.report_notebook(name)) is not None
    return ReportEntry(name, *PRODUCTS[name], page.st_mtime_ns, page.st_size, has_notebook=has_notebook)


def _stat(request: Request, path: str) -> os.stat_result | None:
    """Return the status of a file of the run; None if it does not exist."""
    try:
        return os.stat(site(request).run_cache.file(request.path_params["run"], path))
    except (RunNotFoundError, OSError):
        return None
