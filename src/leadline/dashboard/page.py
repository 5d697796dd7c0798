"""Shared parts of all pages: the request's run, the page frame and its template context."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from leadline.analysis.trees import trains_trees
from leadline.dashboard.run_cache import OpenedRun, RunCache
from leadline.errors import RunNotFoundError
from leadline.reader import liveness
from leadline.reader.summary import summarize
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.run_state import document_paths

if TYPE_CHECKING:
    from leadline.dashboard.live_events import ChangeNotifier
    from leadline.dashboard.run_list import RunList
    from leadline.dashboard.security import Access

RUN_PAGES: Final = {
    "overview": "Overview",
    "nodes": "Nodes",
    "tensors": "Tensors",
    "model": "Model",
    "ranks": "Ranks",
    "rules": "Rules",
    "checks": "Checks",
    "profiles": "Profiles",
    "reports": "Reports",
    "configure": "Configure",
}
"""The pages of a run in the order of the navigation: path and title."""


@dataclass(frozen=True, slots=True)
class Site:
    """State of the dashboard that all requests share."""

    run_cache: RunCache
    templates: Jinja2Templates
    access: Access
    notifier: ChangeNotifier
    run_list: RunList


def site(request: Request) -> Site:
    """Return the dashboard that serves a request."""
    state: Site = request.app.state.site
    return state


def open_run(request: Request) -> OpenedRun:
    """Open the run named in a request's path, refreshed.

    Raises:
        RunNotFoundError: The run does not exist.
    """
    return site(request).run_cache.open(request.path_params["run"])


def render(request: Request, template: str, context: Mapping[str, Any] | None = None, *, page: str = "") -> Response:
    """Render a page within the frame.

    Args:
        context: Template context.
        page: Key of the page in ``RUN_PAGES``.
    """
    run = request.path_params.get("run")
    frame = {
        "run_name": run,
        "run_status": (status := _status(request, run)),
        "run_level": level_of(site(request).run_cache.path(run)) if run and status in JOB_ENDED else "",
        "page": page,
        "title": "",
        "pages": _pages(request, run, page),
        "is_read_only": site(request).access.is_read_only,
    }
    return site(request).templates.TemplateResponse(request, template, {**frame, **(context or {})})


def _pages(request: Request, run: str | None, page: str) -> dict[str, str]:
    """Return the pages of the navigation.

    ``model`` is there for boosted trees, ``ranks`` where there are several, ``checks`` where a copy was checked.
    """
    absent = {"model", "ranks", "checks"} - {page}
    try:
        path = site(request).run_cache.path(run) if run else ""
    except RunNotFoundError:
        path = ""
    if path and trains_trees(path):
        absent.discard("model")
    if path and len({worker.partition("-")[0] for worker in document_paths(path, layout.WORKERS)}) > 1:
        absent.discard("ranks")
    if path and os.path.isdir(os.path.join(path, layout.CHECKS)):
        absent.discard("checks")
    return {key: title for key, title in RUN_PAGES.items() if key not in absent}


def _status(request: Request, run: str | None) -> str:
    """Return the job's status; "" if no run is shown."""
    try:
        return liveness.effective_status(site(request).run_cache.path(run)) if run else ""
    except RunNotFoundError:
        return ""


def level_of(path: str) -> str:
    """Return the level of a run that has ended, which its badge shows; "" if there is no run."""
    summary = summarize(path)
    return summary.level if summary is not None else ""
