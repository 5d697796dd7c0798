"""Charts of scalars and statistics over steps, of one run or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.charts import theme
from leadline.charts.value_axis import line_mode, set_scale, with_gaps
from leadline.reader.window import natural_sort_key
from leadline.records.formatting import worker_labels

_MOMENTS: Final = 100


def scalars(
    table: pa.Table,
    *,
    title: str = "",
    y: str = "",
    is_log: bool | None = None,
    missing: str = "nothing was captured",
    colours: Mapping[str, int] | None = None,
) -> go.Figure:
    """Draw numbers over steps: a line for each name and worker, with a band where steps were aggregated.

    Few points are marked, and lines have gaps; what was not captured in training is drawn as points, in the colour of
    its line if there are several. Non-finite values are marked at the top, at their steps.

    Args:
        table: From ``Digest.scalar`` or ``Digest.statistic``, or several of them concatenated.
        title: "": the name.
        y: Axis title, with unit.
        is_log: Whether to draw magnitudes on a logarithmic axis; None: if they differ widely.
        colours: Index of the colour by worker; None: by name and worker, in order.
    """
    groups = list(_groups(table))
    if not groups:
        return theme.empty(missing, title)
    names = list(dict.fromkeys(key[0] for key, _ in groups))
    title = title or theme.plain_text(names[0] if len(names) == 1 else f"{len(names)} tensors")
    fig = theme.figure(title + _only_mode(groups), y=y)
    is_log = set_scale(fig, [rows["value"] for _, rows in groups], is_log=is_log)
    if is_log:
        has_negative = any(bool(np.any(rows["value"] < 0)) for _, rows in groups)
        fig.update_yaxes(title_text="magnitude" if has_negative else y)
        groups = [(key, {**rows, "value": np.abs(rows["value"])}) for key, rows in groups]
    shown = theme.distinguish([key for key, _ in groups])
    workers = worker_labels(dict.fromkeys(key[2] for key, _ in groups))
    called = [(name, mode, workers[worker]) for (name, mode, worker), _ in groups]
    labels = [theme.plain_text(", ".join(key[i] for i in shown) or f"{key[0]}, {key[1]}") for key in called]
    sources = list(dict.fromkeys((name, worker) for (name, _, worker), _ in groups))
    for index, (label, (key, rows)) in enumerate(zip(labels[: theme.MAX_SERIES], groups, strict=False)):
        name, mode, worker = key
        colour = sources.index((name, worker)) if len(sources) > 1 else index
        if colours is not None:
            colour = colours[worker]
        has_band = len(groups) <= theme.MAX_BANDS and not is_log
        _add(fig, colour, label, rows, is_line=mode == "train", has_band=has_band)
    _mark_nonfinite(fig, labels, [rows for _, rows in groups])
    if not any(bool(np.isfinite(rows["value"]).any()) for _, rows in groups):
        fig.layout.yaxis.showticklabels = False  # the scale would be that of no value
    if colours is None:
        _note_moments(fig, groups[0][1])
    return theme.set_series(theme.set_step_axis(fig), len(groups))


def _only_mode(groups: Sequence[tuple[tuple[str, str, str], Any]]) -> str:
    """Return what follows a title where nothing was captured in training: ``, eval steps``."""
    modes = {mode for (_, mode, _), _ in groups}
    return f", {theme.plain_text(min(modes), 20)} steps" if len(modes) == 1 and modes <= {"eval", "predict"} else ""


def compare(
    tables: Mapping[str, pa.Table],
    *,
    title: str = "",
    y: str = "",
    is_log: bool | None = None,
) -> go.Figure:
    """Draw the same number of several runs on one axis, each run in its colour.

    Args:
        tables: As for ``scalars``, by run name.
    """
    labelled = []
    colours: dict[str, int] = {}
    for index, (run, table) in enumerate(tables.items()):
        workers = table["worker"].to_pylist()
        called = worker_labels(dict.fromkeys(workers))
        texts = [f"{run}, {called[worker]}" if len(called) > 1 else run for worker in workers]
        colours |= dict.fromkeys(texts, index)
        column = table.column_names.index("worker")
        labelled.append(table.set_column(column, "worker", pa.array(texts, pa.string())))
    joined = pa.concat_tables(labelled) if labelled else None
    if joined is None or not joined.num_rows:
        return theme.empty("captured in none of the runs", title)
    return scalars(joined, title=title, y=y, is_log=is_log, colours=colours)


def _add(fig: go.Figure, index: int, name: str, rows: Mapping[str, Any], *, is_line: bool, has_band: bool) -> None:
    rows = with_gaps(rows, "step") if is_line else rows
    if is_line and has_band and bool(np.any(rows["samples"] > 1)):
        theme.add_band(fig, rows["step"], rows["min"], rows["max"], index=index, group=name)
    mode = line_mode(rows["value"]) if is_line else "markers"
    y = theme.float32(rows["value"])
    theme.add_line(fig, index, name, rows["step"], y, theme.VALUE_ON_HOVER, legendgroup=name, mode=mode)


def _mark_nonfinite(fig: go.Figure, labels: Sequence[str], groups: Sequence[Mapping[str, Any]]) -> None:
    """Mark non-finite numbers at the top, with their count as hover text."""
    steps, texts = [], []
    for label, rows in zip(labels, groups, strict=True):
        indices = np.flatnonzero(rows["nonfinite"] > 0)
        steps += rows["step"][indices].tolist()
        texts += [f"{label}: {count:,} not finite" for count in rows["nonfinite"][indices].tolist()]
    if not steps:
        return
    total = sum(int(rows["nonfinite"].sum()) for rows in groups)
    fig.update_layout(yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True})
    fig.add_trace(
        go.Scatter(
            x=steps[:1000],
            y=[0.99] * len(steps[:1000]),
            yaxis="y2",
            mode="markers",
            text=texts[:1000],
            name=f"not finite (NaN or infinite): {total:,}",
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
            marker={"symbol": "triangle-down", "size": 9, "color": theme.FAULT},
        )
    )


def _note_moments(fig: go.Figure, rows: Mapping[str, Any]) -> None:
    """Tell the page when a hundred steps of a series were, so that it can draw all of them over time."""
    places = np.unique(np.linspace(0, len(rows["step"]) - 1, _MOMENTS).astype(np.intp))
    ms = rows["time_ns"][places] // 1_000_000
    moments = {"step": rows["step"][places].tolist(), "start_ms": int(ms[0]), "ms": (ms - ms[0]).tolist()}
    fig.update_layout(meta={**(fig.layout.meta or {}), "moments": moments})


def _groups(table: pa.Table) -> Iterator[tuple[tuple[str, str, str], dict[str, npt.NDArray[Any]]]]:
    """Yield the name, mode and worker of each series, and its columns ordered by step; training comes first."""
    keys = table.group_by(["name", "mode", "worker"], use_threads=False).aggregate([]).to_pylist()
    for key in sorted(
        keys,
        key=lambda key: (key["mode"] != "train", natural_sort_key(key["mode"]), natural_sort_key(key["worker"])),
    ):
        is_group = pc.and_(pc.equal(table["mode"], key["mode"]), pc.equal(table["worker"], key["worker"]))
        rows = table.filter(pc.and_(is_group, pc.equal(table["name"], key["name"]))).sort_by("step")
        columns = {
            name: rows[name].to_numpy() for name in ("step", "time_ns", "value", "min", "max", "nonfinite", "samples")
        }
        yield (key["name"], key["mode"], key["worker"]), columns
