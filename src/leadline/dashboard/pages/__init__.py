"""Pages of the dashboard, one module each, with their routes and charts."""

from __future__ import annotations

from typing import Final

from starlette.routing import Route

from leadline.dashboard.charts import Chart
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
CHARTS: Final[dict[str, Chart]] = {name: chart for page in _PAGES for name, chart in page.CHARTS.items()}
