"""Charts of tensors: scalars, statistics over steps, histograms, layer heat map, values at a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_series import SCALAR_BUCKETS
from leadline.dashboard import tensor_view as view
from leadline.dashboard.charts import Chart, ChartQuery
from leadline.dashboard.query_parameters import parse_integer
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import NotCapturedError, NotYetError
from leadline.figures import layer_heat_map, marks, matrix, scalars, theme, values

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COMPUTED: Final = ("abs_mean", "l2", "min", "max", "mean", "std")
"""Statistics computed from raw tensors if none were captured."""
_MAX_COMPUTED_BYTES: Final = 256 << 20
_MAX_WORKERS: Final = 20
_MAX_STATISTICS: Final = 6
_GROUPS: Final = ("losses", "metrics")


# --- scalars -----------------------------------------------------------------------------------------------


def scalar_groups(opened: OpenedRun) -> dict[str, list[str]]:
    """Return the names of scalars by group: losses, metrics, others."""
    infos = opened.run.archive.infos()
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for name, _ in opened.digest.scalar_names()):
        collections = infos[name].collections if name in infos else ()
        kind = next((group for group in _GROUPS if group in collections), "others")
        groups.setdefault(kind, []).append(name)
    return {kind: groups[kind] for kind in (*_GROUPS, "others") if kind in groups}


def _scalars(opened: OpenedRun, query: ChartQuery) -> Figure:
    group = query.get("group") or "losses"
    name = query.get("name")
    names = [name] if name else scalar_groups(opened).get(group, [])
    tables = [
        opened.digest.scalar(
            scalar,
            query.get("mode"),
            first_worker(opened, query),
            query.start_step,
            query.end_step,
            query.points,
        )
        for scalar in names[: theme.MAX_SERIES]
    ]
    title = theme.plain_text(name) if name else group.capitalize()
    missing = {"losses": "no loss was captured", "metrics": "no metric was logged"}.get(group, "nothing was captured")
    table = pa.concat_tables(tables) if tables else SCALAR_BUCKETS.empty_table()
    return scalars.scalars(table, title=title, missing=missing, is_log=query.get("scale") == "log")


def first_worker(opened: OpenedRun, query: ChartQuery) -> str | None:
    """Return the requested worker; the first if there are very many."""
    workers = opened.digest.workers()
    return query.get("worker") or (workers[0] if len(workers) > _MAX_WORKERS else None)


# --- one tensor --------------------------------------------------------------------------------------------


def _tensor(opened: OpenedRun, query: ChartQuery) -> Figure:
    name = query.get("name") or ""
    statistics = [statistic for statistic in (query.get("statistic") or "").split(",") if statistic][:_MAX_STATISTICS]
    tables = [_statistic(opened, name, statistic, query) for statistic in statistics]
    table = pa.concat_tables(tables) if tables else SCALAR_BUCKETS.empty_table()
    label = ", ".join(statistics) or "statistics"
    fig = scalars.scalars(
        table,
        title=f"{theme.plain_text(label, 60)} of {theme.plain_text(name, 60)}",
        y=theme.plain_text(label, 40),
        is_log=query.get("scale") == "log",
        missing="no statistic of this tensor was captured",
    )
    return marks.mark(fig, _findings_of(opened, name)) if fig.data else fig


def _statistic(opened: OpenedRun, name: str, statistic: str, query: ChartQuery) -> pa.Table:
    table = opened.digest.statistic(
        name,
        statistic,
        query.get("mode"),
        first_worker(opened, query),
        query.start_step,
        query.end_step,
        query.points,
    )
    if not table.num_rows:
        table = _computed(opened, name, statistic, query)
    label = pa.repeat(pa.scalar(statistic, pa.string()), table.num_rows)
    return table.set_column(table.column_names.index("name"), "name", label)


def _computed(opened: OpenedRun, name: str, statistic: str, query: ChartQuery) -> pa.Table:
    """Compute a statistic from a raw tensor, step by step."""
    stored_tensors = opened.run.archive.stored.get(name, [])
    if (
        statistic not in COMPUTED
        or not stored_tensors
        or sum(tensor.nbytes for tensor in stored_tensors) > _MAX_COMPUTED_BYTES
    ):
        return SCALAR_BUCKETS.empty_table()
    try:
        table = opened.run.tensor(name).statistics(statistic)
    except (NotCapturedError, NotYetError):
        return SCALAR_BUCKETS.empty_table()
    for column in ("mode", "worker"):
        if value := query.get(column):
            table = table.filter(pc.equal(table[column], value))
    values = table["value"].to_numpy()
    is_finite = np.isfinite(values)
    finite_values = np.where(is_finite, values, np.nan)
    stamps = [pc.fill_null(table[column], 0) for column in ("mode_step", "time_ns")]
    names = pa.repeat(pa.scalar(name, pa.string()), table.num_rows)
    columns = [names, table["mode"], table["worker"], table["step"], *stamps, values, finite_values, finite_values]
    counts = [(~is_finite).astype(np.int64), np.ones(len(values), np.int64)]
    return pa.table([*columns, *counts], schema=SCALAR_BUCKETS)


def _findings_of(opened: OpenedRun, name: str) -> list[dict[str, Any]]:
    """Return the findings that name a tensor."""
    return [row for row in opened.run.findings().to_pylist() if name in (row["tensors"] or ())]


def _histogram(opened: OpenedRun, query: ChartQuery) -> Figure:
    from leadline.analysis.histograms import read_histograms

    name = query.get("name") or ""
    tensor = opened.run.tensor(name)
    histograms = read_histograms(tensor, worker=query.get("worker"), points=120)
    draw = values.ridge if query.get("form") == "ridge" else values.over_steps
    return draw(histograms, title=f"Values of {theme.plain_text(name, 60)} over steps")


def _at_step(opened: OpenedRun, query: ChartQuery) -> Figure:
    name = query.get("name") or ""
    stored = view.stored_at(opened, name, parse_integer(query.get("step")), query.get("worker"))
    loaded, reason = view.load_for_display(stored) if stored else (None, "")
    missing = reason or "the raw tensor was not stored"
    return values.at_step(
        loaded, tensor=name, step=stored.step if stored else 0, title="Value distribution", missing=missing
    )


def _image(opened: OpenedRun, query: ChartQuery) -> Figure:
    name = query.get("name") or ""
    stored = view.stored_at(opened, name, parse_integer(query.get("step")), query.get("worker"))
    loaded = view.load_for_display(stored)[0] if stored else None
    image = view.as_image(loaded) if loaded is not None else None
    is_folded = loaded is not None and loaded.ndim > 2
    return matrix.matrix(image, x="other dimensions (flattened)" if is_folded else "column")


def numbers_at(opened: OpenedRun, name: str, step: int) -> list[dict[str, Any]]:
    """Return every captured statistic of a tensor at a step: name, description, and value by worker."""
    rows_by_statistic = []
    for statistic in view.statistics_of(opened, name):
        rows = opened.digest.statistic(name, statistic, None, None, step, step + 1).to_pylist()
        if rows:
            by_worker = {row["worker"]: row["value"] for row in rows}
            rows_by_statistic.append(
                {"statistic": statistic, "description": view.meaning(statistic), "values": by_worker}
            )
    return rows_by_statistic


# --- layer heat map----------------------------------------------------------------------------------------


def _layers(opened: OpenedRun, query: ChartQuery) -> Figure:
    collection, statistic = query.get("of") or "gradients", query.get("by") or "abs_mean"
    mode = query.get("mode") or "train"
    data = opened.digest.layers(
        collection, statistic, mode, query.get("worker"), points=min(400, max(50, query.points // 3))
    )
    title = (
        f"{theme.plain_text(statistic, 40)} of {theme.plain_text(collection, 40)}, {theme.plain_text(mode, 20)} steps"
    )
    missing = f"no {statistic} of {collection} was captured in {mode} steps"
    return layer_heat_map.layers(data, statistic=statistic, title=title, missing=missing)


CHARTS: Final[dict[str, Chart]] = {
    "scalars": _scalars,
    "tensor": _tensor,
    "tensor-histogram": _histogram,
    "tensor-spread": _at_step,
    "tensor-image": _image,
    "layers": _layers,
}
