"""All charts by name.

A chart is one function with the decorator ``CatalogChart`` in a module listed here. It is available in notebooks
(``leadline.charts.NAME(run)``), on pages (``/runs/RUN/charts/NAME.json``, its parameters as query) and in reports
(``step_charts.NAME(digest)``).
"""

from __future__ import annotations

from typing import Any, Final

from leadline.charts import check_charts, profile_charts, step_charts, system_charts, tensor_charts
from leadline.charts.chart import CatalogChart

CATALOG: Final[dict[str, CatalogChart[Any]]] = {
    name: entry
    for module in (system_charts, step_charts, tensor_charts, profile_charts, check_charts)
    for name, entry in vars(module).items()
    if isinstance(entry, CatalogChart)
}
