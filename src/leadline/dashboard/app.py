"""ASGI application of the dashboard."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import anyio.to_thread
import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from leadline.dashboard import pages
from leadline.dashboard.chart_endpoint import chart
from leadline.dashboard.live_endpoint import live, live_root
from leadline.dashboard.live_events import ChangeNotifier
from leadline.dashboard.number_format import FILTERS
from leadline.dashboard.page import Site, render, site
from leadline.dashboard.run_cache import RunCache
from leadline.dashboard.run_list import RunList
from leadline.dashboard.security import Access, AccessMiddleware
from leadline.errors import LeadlineError, RunNotFoundError
from leadline.store import layout

_MAX_THREADS: Final = 8
_LOG: Final = logging.getLogger(__name__)
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
_CACHE_HEADERS: Final = {"Cache-Control": "private, max-age=86400"}


def create_app(root: str, *, is_read_only: bool = False, access: Access | None = None) -> Starlette:
    """Create the dashboard of a runs directory.

    Args:
        root: Runs directory; nothing outside it is read.
        is_read_only: Whether control requests and report generation are disabled.
        access: Access rules; None: requests from this machine, under one of its own names.
    """
    access = access or Access(is_read_only=is_read_only)
    app = Starlette(
        routes=[
            Route("/plotly.js", _plotly),
            Mount("/static", StaticFiles(directory=os.path.join(_FOLDER, "static")), name="static"),
            Route("/live", live_root),
            Route("/runs/{run}/live", live),
            *pages.ROUTES,
            Route("/runs/{run}/charts/{chart}.json", chart),
        ],
        middleware=[Middleware(AccessMiddleware, access=access), Middleware(GZipMiddleware)],
        lifespan=_limit_threads,
        exception_handlers={
            HTTPException: _http_error,
            LeadlineError: _leadline_error,
            ClientDisconnect: _disconnected,
            Exception: _internal_error,
        },
    )
    app.router.redirect_slashes = False  # do not redirect unknown paths
    run_cache = RunCache(root)
    app.state.site = Site(run_cache, _templates(), access, ChangeNotifier(), RunList(run_cache.root))
    return app


def _templates() -> Jinja2Templates:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_FOLDER, "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return Jinja2Templates(env=environment)


def _plotly(request: Request) -> Response:
    """Serve Plotly's script from its package."""
    import plotly

    path = os.path.join(os.path.dirname(plotly.__file__), "package_data", "plotly.min.js")
    return FileResponse(path, media_type="text/javascript", headers=_CACHE_HEADERS)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_missing = error.status_code == HTTPStatus.NOT_FOUND and error.detail == HTTPStatus.NOT_FOUND.phrase
    return _error_response(request, error.status_code, "There is no such page." if is_missing else error.detail)


def _leadline_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RunNotFoundError):
        return _error_response(request, 409, str(error))
    run_cache, name = site(request).run_cache, request.path_params.get("run")
    is_missing = name is not None and not layout.is_run(os.path.join(run_cache.root, os.path.basename(name)))
    return _error_response(request, 404, str(error), nearest=run_cache.nearest(name) if name and is_missing else None)


def _disconnected(request: Request, error: Exception) -> Response:
    """End a request whose body does not arrive; nobody receives the answer."""
    return Response(status_code=400)


@asynccontextmanager
async def _limit_threads(app: Starlette) -> AsyncIterator[None]:
    """Limit worker threads: more would not be faster, and each holds the data it reads."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _MAX_THREADS
    yield


def _internal_error(request: Request, error: Exception) -> Response:
    """Report an internal error: the traceback to the terminal, one line to the browser."""
    _LOG.error("%s failed", request.url.path, exc_info=error)
    return _error_response(request, 500, "Internal error of Leadline. The terminal of leadline ui shows the traceback.")


def _error_response(request: Request, status: int, message: str, *, nearest: str | None = None) -> Response:
    """Return an error as a page for browsers, or as one line for scripts.

    Args:
        nearest: A run that may have been meant.
    """
    if "text/html" not in request.headers.get("accept", ""):
        return Response(message + "\n", status, media_type="text/plain")
    response = render(
        request,
        "error.html",
        {"title": str(status), "status": status, "message": message, "nearest": nearest, "run_name": None},
    )
    response.status_code = status
    return response
