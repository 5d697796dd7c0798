"""Catalog of charts: profile windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
import pyarrow as pa

from leadline.analysis import call_tree as call_trees
from leadline.analysis import operators
from leadline.charts import phases, profiles, theme
from leadline.charts.chart import CatalogChart, ChartView
from leadline.errors import NotCapturedError
from leadline.profiles.python_profiles import CallTrees
from leadline.reader.run import Run
from leadline.records.formatting import worker_labels


@CatalogChart
def top_operators(
    view: ChartView, *, window: str | None = None, device: str | None = None, limit: int = 15
) -> go.Figure:
    """Draw the operators with the most own time, by phase and module.

    Args:
        device: ``cpu``, or ``gpu`` for all accelerators; None: all.
    """
    try:
        table = view.run.operators(window=window)
    except NotCapturedError as error:
        return theme.empty(str(error), "Top operators")
    return profiles.bars(operators.top_operators(table, device=device, limit=limit), limit=limit)


@CatalogChart
def window_timeline(
    view: ChartView, *, window: str | None = None, worker: str | None = None, step: int | None = None
) -> go.Figure:
    """Draw the operator calls of a detailed profile window over time."""
    return profiles.window(view.run.operator_calls(window=window, worker=worker, step=step))


@CatalogChart
def data_loading(view: ChartView, *, window: str | None = None) -> go.Figure:
    """Draw when batches were loaded and when the training waited for them."""
    return phases.tracks(loading_tracks(view.run, window), title="Data loading over time")


@CatalogChart
def call_tree(
    view: ChartView,
    *,
    window: str | None = None,
    step: int | None = None,
    worker: str | None = None,
    mode: str | None = None,
    phase: str | None = None,
    part: str = "loop",
    between: tuple[str, str] | None = None,
) -> go.Figure:
    """Draw the call tree sampled by pyinstrument as a flame graph; arguments as for ``Run.python_profile``."""
    selected: dict[str, Any] = {"window": window, "step": step, "worker": worker, "mode": mode, "phase": phase}
    if view.start_ns is not None and view.end_ns is not None:
        selected["time_ns"] = (view.start_ns, view.end_ns)
    try:
        profile = view.run.python_profile(kind="pyinstrument", part=part, between=between, **selected)
    except NotCapturedError as error:
        return theme.empty(str(error), "Python call tree")
    return profiles.icicle(call_trees.call_tree(profile.flames()) if isinstance(profile, CallTrees) else [])


def loading_tracks(run: Run, window: str | None) -> pa.Table:
    """Return data loader events for tracks: ``name, phase, start_ns, duration_ns``."""
    rows = run.data_loading(window=window).to_pylist()
    workers = worker_labels(dict.fromkeys(row["worker"] for row in rows))
    names = [(f"{workers[row['worker']]}: " if len(workers) > 1 else "") + _track_of(row) for row in rows]
    columns = {key: [row[key] for row in rows] for key in ("start_ns", "duration_ns")}
    return pa.table({"name": names, "phase": ["data"] * len(rows), **columns})


def _track_of(row: Mapping[str, Any]) -> str:
    if row["event"] == "wait":
        return "training waits for a batch"
    activity = "loads batches" if row["event"] == "fetch" else "creates an iterator"
    return (
        f"loader worker {row['worker_id']} {activity}" if row["worker_id"] is not None else f"main process {activity}"
    )
