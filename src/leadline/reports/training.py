"""The training chapter: losses, layers, findings, configuration and reproduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import pyarrow as pa

from leadline.charts import tensor_charts
from leadline.charts.chart import ChartView
from leadline.records.names import MODES
from leadline.reports.environment import configuration, environment, reproduction
from leadline.reports.findings import findings
from leadline.reports.section import Chapter, Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

_MAX_CHARTS: Final = 24
"""The maximum number of drawn scalars; the table contains all."""
_LAYER_POINTS: Final = 450
"""A heat map has a third as many columns."""
_LAYERS: Final = (
    ("gradients", "gradients", "Gradients over layers and steps", ("abs_mean", "l2", "abs_max")),
    ("weights", "weights", "Weights over layers and steps", ("update_ratio", "l2", "abs_mean")),
)


def losses(sources: Sources) -> Section:
    """Charts of losses, metrics and logged scalars, and their first, last and extreme values by mode."""
    names = list(dict.fromkeys(name for name, _ in sources.digest.scalar_names()))
    shown = [name for name in names if not _is_bookkeeping(sources, name)]
    if not shown:
        return empty("losses", "Losses and metrics", "no loss, metric or scalar was captured")
    tables = {name: sources.digest.scalar(name, points=POINTS) for name in shown}
    width: Literal["half", "full"] = "half" if len(shown) > 1 else "full"
    charts = tuple(Chart(tensor_charts.scalar(sources.digest, name), width=width) for name in shown[:_MAX_CHARTS])
    more = len(shown) - _MAX_CHARTS
    text = (f"{more:,} more scalars are in the table; leadline ui shows their charts.",) if more > 0 else ()
    return Section("losses", "Losses and metrics", text, charts, (_scalar_table(tables),))


def _is_bookkeeping(sources: Sources, name: str) -> bool:
    """Whether a scalar is neither loss, metric nor logged: a gradient norm or a hyperparameter."""
    info = sources.run.archive.infos().get(name)
    return info is not None and not {"losses", "metrics", "scalars"} & set(info.collections)


def _scalar_table(tables: dict[str, pa.Table]) -> Table:
    rows = []
    for name, table in tables.items():
        for mode in sorted(set(table["mode"].to_pylist()), key=MODES.index):
            points = [row for row in table.to_pylist() if row["mode"] == mode]
            points.sort(key=lambda row: int(row["step"]))
            rows.append(
                {
                    "name": name,
                    "mode": mode,
                    "first": points[0]["value"],
                    "last": points[-1]["value"],
                    "min": _extreme(points, "min", min),
                    "max": _extreme(points, "max", max),
                    "samples": sum(row["samples"] for row in points),
                    "nonfinite": sum(row["nonfinite"] for row in points),
                }
            )
    columns: Columns = {
        "name": "name",
        "mode": "mode",
        "first": "first",
        "last": "last",
        "min": "min",
        "max": "max",
        "samples": "values",
        "nonfinite": Column("NaN or infinite"),
    }
    return table_of(rows, columns, limit=200)


def _extreme(rows: list[dict[str, float]], key: str, choose: Callable[[list[float]], float]) -> float | None:
    finite = [row[key] for row in rows if row[key] == row[key]]
    return choose(finite) if finite else None


def layers(sources: Sources, collection: str, key: str, title: str, statistics: tuple[str, ...]) -> Section:
    """A heat map of all tensors of a collection, by the first of the statistics that was captured."""
    captured = sources.digest.captured()
    for statistic in statistics:
        figure = tensor_charts.layers(ChartView(sources.digest, points=_LAYER_POINTS), collection, statistic)
        if figure.data:
            names = sources.run.tensor_names(collection=collection)
            count = sum(statistic in captured.get(name, ()) for name in names)
            text = f"{statistic.replace('_', ' ')} of {count:,} {collection}, input layers at the top."
            return Section(key, title, (text,), (Chart(figure),))
    return empty(key, title, f"no {collection} were captured; the preset standard captures them every 50 steps")


SECTIONS: Final[tuple[Callable[[Sources], Section], ...]] = (
    losses,
    lambda sources: layers(sources, *_LAYERS[0]),
    lambda sources: layers(sources, *_LAYERS[1]),
    findings,
    configuration,
    environment,
    reproduction,
)


def chapter(sources: Sources) -> Chapter:
    """The chapter with its seven sections."""
    return Chapter("training", "Training", tuple(make(sources) for make in SECTIONS))
