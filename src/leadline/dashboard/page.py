"""What all pages share: the request's run, the frame around them, and the words for the viewer."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from leadline.dashboard.live_events import Watchers
    from leadline.dashboard.run_list import RunList
    from leadline.dashboard.security import Access
    from leadline.dashboard.sparklines import LossSparklines

RUN_PAGES: Final = {
    "overview": "Overview",
    "nodes": "Nodes",
    "tensors": "Tensors",
    "model": "Model",
    "ranks": "Ranks",
    "rules": "Rules",
    "profiles": "Profiles",
    "reports": "Reports",
    "configure": "Configure",
}
"""The pages of a run in the order of the navigation: path and title."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the whole dashboard knows."""

    shelf: RunCache
    templates: Jinja2Templates
    access: Access
    watchers: Watchers
    board: RunList
    courses: LossSparklines


def site(request: Request) -> Site:
    """The dashboard that a request came to."""
    found: Site = request.app.state.site
    return found


def opened(request: Request) -> OpenedRun:
    """The run that a request's path names, as it is now.

    Raises:
        RunNotFoundError: There is none.
    """
    return site(request).shelf.open(request.path_params["run"])


def render(request: Request, template: str, said: Mapping[str, Any] | None = None, *, page: str = "") -> Response:
    """A page within the frame.

    Args:
        said: What the template is given.
        page: Which page of a run this is.
    """
    run = request.path_params.get("run")
    frame = {
        "run_name": run,
        "run_status": _status(request, run),
        "page": page,
        "title": "",
        "pages": _pages(request, run),
        "is_read_only": site(request).access.is_read_only,
        "csrf": site(request).access.csrf,
    }
    return site(request).templates.TemplateResponse(request, template, {**frame, **(said or {})})


def _pages(request: Request, run: str | None) -> dict[str, str]:
    """The pages of the navigation; those of models that only some runs have are in it where they do."""
    try:
        has_trees = run is not None and trains_trees(site(request).shelf.path(run))
    except RunNotFoundError:
        has_trees = False
    return {key: each for key, each in RUN_PAGES.items() if has_trees or key != "model"}


def _status(request: Request, run: str | None) -> str:
    """The job's status; "" where no run is shown."""
    try:
        return liveness.effective_status(site(request).shelf.path(run)) if run else ""
    except RunNotFoundError:
        return ""
