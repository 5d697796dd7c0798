"""The charts of tensors: single numbers, statistics over steps, histograms, the network, values at a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_series import SCALAR_BUCKETS
from leadline.dashboard import tensor_view as view
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.query_parameters import whole_number
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import NotCapturedError, NotYetError
from leadline.figures import layer_heat_map, marks, matrix, scalars, theme, values

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COMPUTED: Final = ("abs_mean", "l2", "min", "max", "mean", "std")
"""What is computed of tensors of which only they themselves were stored."""
_MOST_COMPUTED_BYTES: Final = 256 << 20
_MOST_WORKERS: Final = 20
_MOST_STATISTICS: Final = 6
_GROUPS: Final = ("losses", "metrics")


# --- single numbers ----------------------------------------------------------------------------------------


def scalar_groups(found: OpenedRun) -> dict[str, list[str]]:
    """Names of single numbers: losses, metrics, and what else there is."""
    infos = found.run.archive.infos()
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for name, _ in found.digest.scalar_names()):
        collections = infos[name].collections if name in infos else ()
        kind = next((each for each in _GROUPS if each in collections), "others")
        groups.setdefault(kind, []).append(name)
    return {kind: groups[kind] for kind in (*_GROUPS, "others") if kind in groups}


def _scalars(found: OpenedRun, question: Question) -> Figure:
    group = question.get("group") or "losses"
    name = question.get("name")
    names = [name] if name else scalar_groups(found).get(group, [])
    tables = [
        found.digest.scalar(
            each,
            question.get("mode"),
            first_worker(found, question),
            question.start_step,
            question.end_step,
            question.points,
        )
        for each in names[: theme.MOST_SERIES]
    ]
    title = theme.plain(name) if name else group.capitalize()
    missing = {"losses": "no loss was captured", "metrics": "no metric was logged"}.get(group, "nothing was captured")
    table = pa.concat_tables(tables) if tables else SCALAR_BUCKETS.empty_table()
    return scalars.scalars(table, title=title, missing=missing, is_log=question.get("scale") == "log")


def first_worker(found: OpenedRun, question: Question) -> str | None:
    """The worker that is asked for; of very many the first."""
    workers = found.digest.workers()
    return question.get("worker") or (workers[0] if len(workers) > _MOST_WORKERS else None)


# --- one tensor --------------------------------------------------------------------------------------------


def _tensor(found: OpenedRun, question: Question) -> Figure:
    name = question.get("name") or ""
    statistics = [each for each in (question.get("statistic") or "").split(",") if each][:_MOST_STATISTICS]
    tables = [_statistic(found, name, each, question) for each in statistics]
    table = pa.concat_tables(tables) if tables else SCALAR_BUCKETS.empty_table()
    words = ", ".join(statistics) or "statistics"
    shown = scalars.scalars(
        table,
        title=f"{theme.plain(words, 60)} of {theme.plain(name, 60)}",
        y=theme.plain(words, 40),
        is_log=question.get("scale") == "log",
        missing="no statistic of it was captured",
    )
    return marks.mark(shown, _naming(found, name)) if shown.data else shown


def _statistic(found: OpenedRun, name: str, statistic: str, question: Question) -> pa.Table:
    table = found.digest.statistic(
        name,
        statistic,
        question.get("mode"),
        first_worker(found, question),
        question.start_step,
        question.end_step,
        question.points,
    )
    if not table.num_rows:
        table = _computed(found, name, statistic, question)
    label = pa.repeat(pa.scalar(statistic, pa.string()), table.num_rows)
    return table.set_column(table.column_names.index("name"), "name", label)


def _computed(found: OpenedRun, name: str, statistic: str, question: Question) -> pa.Table:
    """A statistic of a tensor that was only stored whole, step by step."""
    kept = found.run.archive.stored.get(name, [])
    if statistic not in COMPUTED or not kept or sum(each.nbytes for each in kept) > _MOST_COMPUTED_BYTES:
        return SCALAR_BUCKETS.empty_table()
    try:
        table = found.run.tensor(name).statistics(statistic)
    except (NotCapturedError, NotYetError):
        return SCALAR_BUCKETS.empty_table()
    for column in ("mode", "worker"):
        if wanted := question.get(column):
            table = table.filter(pc.equal(table[column], wanted))
    number = table["value"].to_numpy()
    is_finite = np.isfinite(number)
    clean = np.where(is_finite, number, np.nan)
    stamps = [pc.fill_null(table[each], 0) for each in ("mode_step", "time_ns")]
    texts = pa.repeat(pa.scalar(name, pa.string()), table.num_rows)
    columns = [texts, table["mode"], table["worker"], table["step"], *stamps, number, clean, clean]
    counts = [(~is_finite).astype(np.int64), np.ones(len(number), np.int64)]
    return pa.table([*columns, *counts], schema=SCALAR_BUCKETS)


def _naming(found: OpenedRun, name: str) -> list[dict[str, Any]]:
    """The findings that name a tensor."""
    return [row for row in found.run.findings().to_pylist() if name in (row["tensors"] or ())]


def _histogram(found: OpenedRun, question: Question) -> Figure:
    from leadline.analysis.histograms import read_histograms

    name = question.get("name") or ""
    tensor = found.run.tensor(name)
    histograms = read_histograms(tensor, worker=question.get("worker"), points=120)
    draw = values.ridge if question.get("form") == "ridge" else values.over_steps
    return draw(histograms, title=f"Values of {theme.plain(name, 60)} over steps")


def _at_step(found: OpenedRun, question: Question) -> Figure:
    name = question.get("name") or ""
    stored = view.stored_at(found, name, whole_number(question.get("step")), question.get("worker"))
    loaded, why = view.load_shown(stored) if stored else (None, "")
    missing = why or "the tensor itself was not stored"
    return values.at_step(
        loaded, tensor=name, step=stored.step if stored else 0, title="How the values are spread", missing=missing
    )


def _image(found: OpenedRun, question: Question) -> Figure:
    name = question.get("name") or ""
    stored = view.stored_at(found, name, whole_number(question.get("step")), question.get("worker"))
    loaded = view.load_shown(stored)[0] if stored else None
    image = view.as_image(loaded) if loaded is not None else None
    is_folded = loaded is not None and loaded.ndim > 2
    return matrix.matrix(image, x="all other dimensions" if is_folded else "column")


def numbers_at(found: OpenedRun, name: str, step: int) -> list[dict[str, Any]]:
    """Every captured statistic of a tensor at a step: name, meaning, and the value by worker."""
    told = []
    for statistic in view.statistics_of(found, name):
        rows = found.digest.statistic(name, statistic, None, None, step, step + 1).to_pylist()
        if rows:
            by_worker = {row["worker"]: row["value"] for row in rows}
            told.append({"statistic": statistic, "meaning": view.meaning(statistic), "values": by_worker})
    return told


# --- the network -------------------------------------------------------------------------------------------


def _layers(found: OpenedRun, question: Question) -> Figure:
    collection, statistic = question.get("of") or "gradients", question.get("by") or "abs_mean"
    mode = question.get("mode") or "train"
    told = found.digest.layers(
        collection, statistic, mode, question.get("worker"), points=min(400, max(50, question.points // 3))
    )
    title = f"{theme.plain(statistic, 40)} of {theme.plain(collection, 40)}, {theme.plain(mode, 20)} steps"
    missing = f"no {statistic} of {collection} was captured in {mode} steps"
    return layer_heat_map.layers(told, statistic=statistic, title=title, missing=missing)


CHARTS: Final[dict[str, Chart]] = {
    "scalars": _scalars,
    "tensor": _tensor,
    "tensor-histogram": _histogram,
    "tensor-spread": _at_step,
    "tensor-image": _image,
    "layers": _layers,
}
