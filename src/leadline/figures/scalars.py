"""Single numbers over steps: losses, metrics, and statistics of tensors; of one run, or of two side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.figures import theme
from leadline.reader.window import natural_sort_key


def scalars(
    table: pa.Table, *, title: str = "", y: str = "value", is_log: bool = False, missing: str = "nothing was captured"
) -> go.Figure:
    """Numbers over steps: a line for each name, mode and worker; a band where steps were put together.

    What is not finite has no place on an axis: it is marked at the top, at the step at which it was.

    Args:
        table: As ``Digest.scalar`` or ``Digest.statistic`` gives it, or several of them one below the other.
        title: "": the name.
        y: Title of the axis, with its unit.
        is_log: Whether magnitudes are drawn, on a logarithmic axis.
    """
    groups = list(_groups(table))
    if not groups:
        return theme.empty(missing, title)
    names = list(dict.fromkeys(key["name"] for key, _ in groups))
    shown = theme.figure(title or theme.plain(names[0] if len(names) == 1 else f"{len(names)} tensors"), y=y)
    for place, (key, rows) in enumerate(groups[: theme.MOST_SERIES]):
        has_band = len(groups) <= theme.MOST_BANDS and not is_log
        _add(shown, place, _name(key, groups), rows, is_log=is_log, has_band=has_band)
    _mark_nonfinite(shown, groups)
    theme.left_out(shown, len(groups) - theme.MOST_SERIES, "series")
    if is_log:
        shown.update_yaxes(type="log", exponentformat="power", nticks=6, title_text=f"magnitude of {y}, log scale")
    shown.update_layout(hovermode="x unified" if len(groups) <= 10 else "closest")
    return theme.set_legend(theme.set_step_axis(shown))


def compare(
    tables: Mapping[str, pa.Table],
    *,
    title: str = "",
    y: str = "value",
    is_log: bool = False,
    missing: str = "neither run has it",
) -> go.Figure:
    """The same number of several runs on one axis.

    Args:
        tables: As for ``scalars``, by the name of the run.
    """
    marked = []
    for run, table in tables.items():
        workers = table["worker"].to_pylist()
        texts = [f"{run} {each}" if len(set(workers)) > 1 else run for each in workers]
        place = table.column_names.index("worker")
        marked.append(table.set_column(place, "worker", pa.array(texts, pa.string())))
    joined = pa.concat_tables(marked) if marked else None
    if joined is None or not joined.num_rows:
        return theme.empty(missing, title)
    return scalars(joined, title=title, y=y, is_log=is_log)


def _add(shown: go.Figure, place: int, name: str, rows: Mapping[str, Any], *, is_log: bool, has_band: bool) -> None:
    hue, steps = theme.colour(place), rows["step"]
    value, low, high = (np.abs(rows[key]) if is_log else rows[key] for key in ("value", "min", "max"))
    if has_band and bool(np.any(rows["samples"] > 1)):
        theme.add_band(shown, steps, low, high, place=place, group=name)
    shown.add_trace(
        go.Scatter(
            x=steps,
            y=theme.numbers(value),
            name=name,
            legendgroup=name,
            mode="lines" if np.isfinite(value).sum() > 1 else "markers",
            line={"color": hue, "width": 1.5, "dash": theme.dash(place)},
            hovertemplate="%{y:.6g}",
        )
    )


def _mark_nonfinite(shown: go.Figure, groups: list[tuple[dict[str, str], dict[str, Any]]]) -> None:
    """Marks at the top where numbers are not finite, and how many there are in words."""
    steps, words = [], []
    for key, rows in groups:
        at = np.flatnonzero(rows["nonfinite"] > 0)
        steps += rows["step"][at].tolist()
        words += [f"{_name(key, groups)}: {count:,} not finite" for count in rows["nonfinite"][at].tolist()]
    if not steps:
        return
    total = sum(int(rows["nonfinite"].sum()) for _, rows in groups)
    shown.update_layout(yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True})
    shown.add_trace(
        go.Scatter(
            x=steps[:1000],
            y=[0.99] * len(steps[:1000]),
            yaxis="y2",
            mode="markers",
            text=words[:1000],
            name=f"not finite (NaN or infinite): {total:,}",
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
            marker={"symbol": "triangle-down", "size": 9, "color": theme.PALETTE[3]},
        )
    )


def _groups(table: pa.Table) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Each name, mode and worker with its columns, by step."""
    keys = table.group_by(["name", "mode", "worker"], use_threads=False).aggregate([]).to_pylist()
    for key in sorted(
        keys,
        key=lambda each: (each["mode"] != "train", natural_sort_key(each["mode"]), natural_sort_key(each["worker"])),
    ):
        is_one = pc.and_(pc.equal(table["mode"], key["mode"]), pc.equal(table["worker"], key["worker"]))
        rows = table.filter(pc.and_(is_one, pc.equal(table["name"], key["name"]))).sort_by("step")
        yield key, {name: rows[name].to_numpy() for name in ("step", "value", "min", "max", "nonfinite", "samples")}


def _name(key: Mapping[str, str], groups: list[tuple[dict[str, str], dict[str, Any]]]) -> str:
    """What tells a series from the others."""
    parts = [key[each] for each in ("name", "mode", "worker") if len({one[each] for one, _ in groups}) > 1]
    return theme.plain(" ".join(parts) if parts else f"{key['name']}, {key['mode']}")
