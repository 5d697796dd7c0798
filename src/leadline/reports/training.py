"""The training report: what was learned, what the rules found, and how to do it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from leadline.figures import layer_heat_map, scalars
from leadline.records.names import MODES
from leadline.reports.environment import configuration, environment, reproduction
from leadline.reports.findings import findings
from leadline.reports.section import Chapter, Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

_MOST_CHARTED: Final = 24
"""Scalars drawn; of all there is a row in the table."""
_LAYER_POINTS: Final = 150
_LAYERS: Final = (
    ("gradients", "gradients", "Gradients over layers and steps", ("abs_mean", "l2", "abs_max")),
    ("weights", "weights", "Weights over layers and steps", ("update_ratio", "l2", "abs_mean")),
)


def losses(sources: Sources) -> Section:
    """Losses, metrics and logged numbers: their course in each mode, and where they began and ended."""
    names = list(dict.fromkeys(name for name, _ in sources.digest.scalar_names()))
    shown = [each for each in names if not _is_bookkeeping(sources, each)]
    if not shown:
        return empty("losses", "Losses and metrics", "no loss, metric or scalar was captured")
    tables = {name: sources.digest.scalar(name, points=POINTS) for name in shown}
    width = "half" if len(shown) > 1 else "full"
    charts = tuple(
        Chart(scalars.scalars(tables[name]), width="full" if width == "full" else "half")
        for name in shown[:_MOST_CHARTED]
    )
    more = len(shown) - _MOST_CHARTED
    words = (f"{more:,} more are in the table, and drawn by: leadline ui.",) if more > 0 else ()
    return Section("losses", "Losses and metrics", words, charts, (_courses(tables),))


def _is_bookkeeping(sources: Sources, name: str) -> bool:
    """Whether it is a number of the training's own settings, such as the norms and the learning rate."""
    info = sources.run.archive.infos().get(name)
    return info is not None and not {"losses", "metrics", "scalars"} & set(info.collections)


def _courses(tables: dict[str, pa.Table]) -> Table:
    rows = []
    for name, table in tables.items():
        for mode in sorted(set(table["mode"].to_pylist()), key=MODES.index):
            found = [row for row in table.to_pylist() if row["mode"] == mode]
            found.sort(key=lambda row: int(row["step"]))
            rows.append(
                {
                    "name": name,
                    "mode": mode,
                    "first": found[0]["value"],
                    "last": found[-1]["value"],
                    "least": _least(found, "min", min),
                    "most": _least(found, "max", max),
                    "samples": sum(row["samples"] for row in found),
                    "nonfinite": sum(row["nonfinite"] for row in found),
                }
            )
    columns: Columns = {
        "name": "name",
        "mode": "mode",
        "first": "first",
        "last": "last",
        "least": "least",
        "most": "most",
        "samples": "values",
        "nonfinite": Column("NaN or infinite"),
    }
    return table_of(rows, columns, most=200)


def _least(rows: list[dict[str, float]], key: str, choose: Callable[[list[float]], float]) -> float | None:
    finite = [row[key] for row in rows if row[key] == row[key]]
    return choose(finite) if finite else None


def layers(sources: Sources, collection: str, key: str, title: str, statistics: tuple[str, ...]) -> Section:
    """One statistic of all tensors of a collection: the first of those wished for that was captured."""
    for statistic in statistics:
        found = sources.digest.layers(collection, statistic, points=_LAYER_POINTS)
        if found["tensors"]:
            figure = layer_heat_map.layers(found, statistic=statistic.replace("_", " "))
            words = f"{statistic.replace('_', ' ')} of {len(found['tensors']):,} {collection}, the input at the top."
            return Section(key, title, (words,), (Chart(figure),))
    return empty(key, title, f"no {collection} were captured; preset standard captures them every 50 steps")


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
    """What was learned, what was found, and how to do it again."""
    return Chapter("training", "Training", tuple(make(sources) for make in SECTIONS))
