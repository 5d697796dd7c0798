"""Pages of the dashboard, one module each, with their routes."""

from __future__ import annotations

from typing import Final

from starlette.routing import Route

from leadline.dashboard.pages import (
    compare,
    configure,
    controls,
    exports,
    model,
    nodes,
    overview,
    profiles,
    ranks,
    reports,
    rules,
    runs,
    selection,
    tensors,
)

_PAGES: Final = (
    runs,
    overview,
    nodes,
    tensors,
    model,
    ranks,
    rules,
    profiles,
    reports,
    configure,
    selection,
    controls,
    exports,
    compare,
)

ROUTES: Final[list[Route]] = [route for page in _PAGES for route in page.ROUTES]
