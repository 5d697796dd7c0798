"""Figures drawn from tables, and the notebook API: ``figures.step_timeline(run)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadline.figures.notebook import (
        Selection,
        call_tree,
        compare,
        functions_between_modes,
        functions_by_step,
        functions_by_time,
        heat_map,
        histogram,
        job,
        layers,
        losses,
        merged_timeline,
        metrics_histogram,
        metrics_over_time,
        progress,
        rank_times,
        scalar,
        selection,
        step_durations,
        step_histogram,
        step_timeline,
        tensor,
        timeline_charts,
        top_operators,
        value,
    )

__all__ = [
    "Selection",
    "call_tree",
    "compare",
    "functions_between_modes",
    "functions_by_step",
    "functions_by_time",
    "heat_map",
    "histogram",
    "job",
    "layers",
    "losses",
    "merged_timeline",
    "metrics_histogram",
    "metrics_over_time",
    "progress",
    "rank_times",
    "scalar",
    "selection",
    "step_durations",
    "step_histogram",
    "step_timeline",
    "tensor",
    "timeline_charts",
    "top_operators",
    "value",
]


def __getattr__(name: str) -> Any:
    """Import the notebook functions on first access."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from leadline.figures import notebook
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "plotly":
            raise
        from leadline.errors import MissingExtraError

        raise MissingExtraError("charts need Plotly; install it with: pip install 'leadline[ui]'") from error
    return getattr(notebook, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
