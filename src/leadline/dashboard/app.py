"""The dashboard as one ASGI application."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread
import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from leadline.dashboard import pages
from leadline.dashboard.charts import chart_endpoint
from leadline.dashboard.live_events import Watchers, live, live_root
from leadline.dashboard.number_format import FILTERS
from leadline.dashboard.page import Site, render
from leadline.dashboard.run_cache import RunCache
from leadline.dashboard.run_list import RunList
from leadline.dashboard.security import Access, AccessMiddleware
from leadline.dashboard.sparklines import LossSparklines
from leadline.errors import LeadlineError, RunNotFoundError

_MOST_THREADS: Final = 8
_LOG: Final = logging.getLogger(__name__)
_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_KEPT: Final = {"Cache-Control": "private, max-age=86400"}


def create_app(root: str, *, is_read_only: bool = False, access: Access | None = None) -> Starlette:
    """The dashboard of the runs below a folder.

    Args:
        root: The folder; nothing outside it is read.
        is_read_only: Whether it changes nothing: no control requests, no reports.
        access: Who may do what; None: everybody who comes from this machine, under one of its own names.
    """
    access = access or Access(is_read_only=is_read_only)
    app = Starlette(
        routes=[
            Route("/plotly.js", _plotly),
            Mount("/static", StaticFiles(directory=os.path.join(_HERE, "static")), name="static"),
            Route("/live", live_root),
            Route("/runs/{run}/live", live),
            Route("/runs/{run}/charts/{chart}.json", chart_endpoint(pages.CHARTS)),
            *pages.ROUTES,
        ],
        middleware=[Middleware(AccessMiddleware, access=access), Middleware(GZipMiddleware)],
        lifespan=_with_few_threads,
        exception_handlers={HTTPException: _refused, LeadlineError: _failed, Exception: _broken},
    )
    app.router.redirect_slashes = False  # a path that nobody knows is not worth a second try
    shelf = RunCache(root)
    app.state.site = Site(shelf, _templates(), access, Watchers(), RunList(shelf.root), LossSparklines())
    return app


def _templates() -> Jinja2Templates:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_HERE, "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return Jinja2Templates(env=environment)


def _plotly(request: Request) -> Response:
    """Plotly's script, out of its package."""
    import plotly

    path = os.path.join(os.path.dirname(plotly.__file__), "package_data", "plotly.min.js")
    return FileResponse(path, media_type="text/javascript", headers=_KEPT)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _said(request, error.status_code, error.detail)


def _failed(request: Request, error: Exception) -> Response:
    return _said(request, 404 if isinstance(error, RunNotFoundError) else 409, str(error))


@asynccontextmanager
async def _with_few_threads(app: Starlette) -> AsyncIterator[None]:
    """Pages and charts are made by few at a time: more would not be sooner, and each holds what it reads."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _MOST_THREADS
    yield


def _broken(request: Request, error: Exception) -> Response:
    """Something of ours failed: the terminal gets all of it, the browser one line; the next request is served."""
    _LOG.error("%s failed", request.url.path, exc_info=error)
    return _said(request, 500, "This could not be made: a fault of Leadline's. The terminal of leadline ui tells more.")


def _said(request: Request, status: int, words: str) -> Response:
    """An error in words: a page for people, one line for scripts."""
    if "text/html" not in request.headers.get("accept", ""):
        return Response(words + "\n", status, media_type="text/plain")
    found = render(request, "error.html", {"status": status, "words": words, "run_name": None})
    found.status_code = status
    return found
