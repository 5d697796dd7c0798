"""Charts of a run in notebooks: ``charts.step_timeline(run)``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def __getattr__(name: str) -> Any:
    """Import the charts on first access."""
    public = {} if name.startswith("_") or find_spec(f"{__name__}.{name}") else _public()
    if name not in public:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return public[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_public()})


def _public() -> dict[str, object]:
    """Return the charts of the catalog, and the other functions for notebooks."""
    try:
        from leadline.charts import catalog, notebook
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "plotly":
            raise
        from leadline.errors import MissingExtraError

        raise MissingExtraError("charts need Plotly; install it with: pip install 'leadline[ui]'") from error
    return {**catalog.CATALOG, **{name: getattr(notebook, name) for name in notebook.__all__}}
