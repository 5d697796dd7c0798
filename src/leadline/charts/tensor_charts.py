"""Catalog of charts: scalars and tensors."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest import Digest
from leadline.analysis.digest_series import SCALAR_BUCKETS
from leadline.analysis.histograms import read_histograms
from leadline.charts import marks, scalars, theme, values
from leadline.charts.chart import CatalogChart, ChartView, Names, Sources, view_of
from leadline.charts.theme import plain_text
from leadline.errors import DamagedRunError, NotCapturedError, NotYetError
from leadline.reader.run import Run
from leadline.reader.tensors import StoredTensor
from leadline.records.documents import RuleSummary
from leadline.records.loss_roles import logged_losses, role_of
from leadline.records.names import MODES, heading
from leadline.store.run_state import read_rule_summary

if TYPE_CHECKING:
    import numpy.typing as npt

COMPUTED: Final = ("abs_mean", "l2", "min", "max", "mean", "std")
"""Statistics computed from raw tensors if none were captured."""
_MAX_BYTES: Final = 256 << 20
"""Maximum size of raw tensors that are drawn or from which statistics are computed."""
_MAX_STATISTICS: Final = 6
_MAX_WORKERS: Final = 20
_HISTOGRAM_STEPS: Final = 120
_GROUPS: Final = ("losses", "metrics")


@CatalogChart
def scalar(
    view: ChartView, name: str, *, mode: str | None = None, worker: str | None = None, is_log: bool | None = None
) -> go.Figure:
    """Draw a scalar over steps, with the findings that name it."""
    table, missing = view.statistic(name, "value", mode, worker), f"no value of {name} was captured"
    return _mark(scalars.scalars(table, title=_heading(view, name), is_log=is_log, missing=missing), view, [name])


@CatalogChart
def metric(
    view: ChartView, name: str, *, mode: str | None = None, worker: str | None = None, is_log: bool | None = None
) -> go.Figure:
    """Draw a loss or metric of all data sets in one chart, with findings marked.

    Args:
        name: One of its scalars: ``val_loss`` draws ``loss``, too.
    """
    stem, names = next(
        (
            (stem, names)
            for families in metrics(view.digest).values()
            for stem, names in families.items()
            if name in names
        ),
        (name, [name]),
    )
    worker = drawn_worker(view.digest, worker)
    table = pa.concat_tables([view.statistic(member, "value", mode, worker) for member in names[: theme.MAX_SERIES]])
    missing = f"no value of {name} was captured"
    title = _heading(view, stem) if stem in names else plain_text(stem)
    return _mark(scalars.scalars(table, title=title, is_log=is_log, missing=missing), view, names)


@CatalogChart
def scalar_group(
    view: ChartView,
    group: str = "losses",
    *,
    mode: str | None = None,
    worker: str | None = None,
    is_log: bool | None = None,
) -> go.Figure:
    """Draw all scalars of a group: ``losses``, ``metrics`` or ``others``."""
    names = scalar_groups(view.digest).get(group, [])[: theme.MAX_SERIES]
    worker = drawn_worker(view.digest, worker)
    tables = [view.statistic(name, "value", mode, worker) for name in names]
    missing = {"losses": "no loss was captured", "metrics": "no metric was logged"}.get(group, "nothing was captured")
    table = pa.concat_tables([SCALAR_BUCKETS.empty_table(), *tables])
    return scalars.scalars(table, title=plain_text(group.capitalize()), is_log=is_log, missing=missing)


@CatalogChart
def losses(
    view: ChartView, *, mode: str | None = None, worker: str | None = None, is_log: bool | None = None
) -> go.Figure:
    """Draw every loss by mode, with findings marked."""
    names = scalar_groups(view.digest).get("losses", [])
    return _mark(scalar_group(view, "losses", mode=mode, worker=worker, is_log=is_log), view, names)


@CatalogChart
def tensor(
    view: ChartView,
    name: str,
    statistic: Names = "abs_mean",
    *,
    mode: str | None = None,
    worker: str | None = None,
    is_log: bool | None = None,
) -> go.Figure:
    """Draw statistics of one tensor over steps, with the findings that name it.

    Args:
        statistic: One or several; those that were not captured are computed from raw tensors.
    """
    statistics = ([statistic] if isinstance(statistic, str) else list(statistic or ()))[:_MAX_STATISTICS]
    tables = [statistic_table(view, name, statistic, mode, worker) for statistic in statistics]
    label = ", ".join(statistics) or "statistics"
    fig = scalars.scalars(
        pa.concat_tables([SCALAR_BUCKETS.empty_table(), *tables]),
        title=_heading(view, name) if label == "value" else f"{plain_text(label, 60)} of {_heading(view, name)}",
        is_log=is_log,
        missing="no statistic of this tensor was captured",
    )
    return _mark(fig, view, [name])


@CatalogChart
def histogram(view: ChartView, name: str, *, worker: str | None = None, is_ridge: bool = False) -> go.Figure:
    """Draw the distribution of a tensor's values over steps, as a heat map or ridge plot."""
    draw = values.ridge if is_ridge else values.over_steps
    return draw(read_histograms(view.run.tensor(name), worker=worker, points=_HISTOGRAM_STEPS))


@CatalogChart
def value(
    view: ChartView, name: str, step: int | None = None, *, worker: str | None = None, mode: str | None = None
) -> go.Figure:
    """Draw the distribution of the values of a raw tensor at one step of a mode; None: the last."""
    loaded, missing, step = raw_values(view.run, name, step, worker, mode)
    return values.at_step(loaded, tensor=name, step=step, missing=missing)


@CatalogChart
def tensor_image(
    view: ChartView, name: str, step: int | None = None, *, worker: str | None = None, mode: str | None = None
) -> go.Figure:
    """Draw the values of a raw tensor at one step of a mode as an image."""
    loaded, *_ = raw_values(view.run, name, step, worker, mode)
    is_folded = loaded is not None and loaded.ndim > 2
    x = "other dimensions (flattened)" if is_folded else "column"
    return values.matrix(None if loaded is None else as_image(loaded), x=x)


@CatalogChart
def layers(
    view: ChartView,
    collection: str = "gradients",
    statistic: str = "abs_mean",
    *,
    mode: str = "train",
    worker: str | None = None,
) -> go.Figure:
    """Draw one statistic of the tensors of a collection, layers over steps."""
    points = min(400, max(50, view.points // 3))
    data = view.digest.layers(collection, statistic, mode, worker, points=points)
    if len(data["tensors"]) and statistic != "nonfinite_count":
        counts = view.digest.layers(collection, "nonfinite_count", mode, worker, points=points)
        data = values.with_nonfinite(data, counts)
    title = f"{plain_text(statistic, 40)} of {plain_text(collection, 40)}, {plain_text(mode, 20)} steps"
    missing = f"no {statistic} of {collection} was captured in {mode} steps"
    return values.layers(data, statistic=statistic, title=title, missing=missing)


@CatalogChart
def compare(
    view: ChartView,
    other: Sources,
    name: str,
    statistic: str = "value",
    *,
    mode: str | None = None,
    worker: str | None = None,
    is_log: bool | None = None,
) -> go.Figure:
    """Draw the same scalar, or the same statistic of a tensor, of several runs on one axis.

    Args:
        other: The other run, or several.
    """
    others = list(other) if isinstance(other, Sequence) else [other]
    views = [view, *(replace(view, digest=view_of(run).digest) for run in others)]
    names = [member.run.name for member in views]
    names = [f"{name} ({at})" if name in names[: at - 1] else name for at, name in enumerate(names, 1)]
    tables = {
        run: member.statistic(name, statistic, mode, drawn_worker(member.digest, worker))
        for run, member in zip(names, views, strict=True)
    }
    label = plain_text(statistic, 40)
    title = _heading(view, name) if statistic == "value" else f"{label} of {_heading(view, name)}"
    return scalars.compare(tables, title=title, is_log=is_log)


def _heading(view: ChartView, name: str) -> str:
    collections = {tensor: info.collections for tensor, info in view.run.archive.infos().items()}
    if name in logged_losses(collections):
        return f"{plain_text(heading(name), 50)} (logged)"
    return plain_text(heading(name, collections.get(name, ())), 60)


def _mark(fig: go.Figure, view: ChartView, tensors: Collection[str]) -> go.Figure:
    """Mark the findings that name one of the tensors, and the first problem of the run, unless the chart is empty.

    Only those within the steps of the view.
    """
    if not fig.data:
        return fig
    start, end = view.start_step or 0, math.inf if view.end_step is None else view.end_step
    findings = [row for row in view.run.findings().to_pylist() if start <= row["step"] < end]
    summary = read_rule_summary(view.run.path) or RuleSummary()
    severe = {rule.name for rule in summary.rules if rule.severity != "advice"}
    first = min((row for row in findings if row["rule"] in severe), key=lambda row: int(row["step"]), default=None)
    return marks.mark(
        fig, [row for row in findings if row is first or not set(tensors).isdisjoint(row["tensors"] or ())]
    )


def scalar_groups(digest: Digest) -> dict[str, list[str]]:
    """Return the names of scalars by group: losses, metrics, others."""
    infos = digest.run.archive.infos()
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for name, _ in digest.scalar_names()):
        collections = infos[name].collections if name in infos else ()
        kind = next((group for group in _GROUPS if group in collections), "others")
        groups.setdefault(kind, []).append(name)
    return {kind: groups[kind] for kind in (*_GROUPS, "others") if kind in groups}


def metrics(digest: Digest) -> dict[str, dict[str, list[str]]]:
    """Return the scalars of each loss or metric, by group and by the name that its data sets share."""
    infos = digest.run.archive.infos()
    families: dict[str, dict[str, list[str]]] = {}
    for group, names in scalar_groups(digest).items():
        for name in names:
            _, stem = role_of(name, "train", infos[name].collections if name in infos else ())
            families.setdefault(group, {}).setdefault(stem, []).append(name)
    return families


def drawn_worker(digest: Digest, worker: str | None) -> str | None:
    """Return the requested worker; the first if there are very many."""
    workers = digest.workers()
    return worker or (workers[0] if len(workers) > _MAX_WORKERS else None)


def statistic_table(view: ChartView, name: str, statistic: str, mode: str | None, worker: str | None) -> pa.Table:
    """Return a statistic over steps, captured or computed from raw tensors, named after the statistic."""
    table = view.statistic(name, statistic, mode, drawn_worker(view.digest, worker))
    if not table.num_rows:
        table = _computed(view.run, name, statistic, {"mode": mode, "worker": worker})
    label = pa.repeat(pa.scalar(statistic, pa.string()), table.num_rows)
    return table.set_column(table.column_names.index("name"), "name", label)


def _computed(run: Run, name: str, statistic: str, selected: Mapping[str, str | None]) -> pa.Table:
    """Compute a statistic from a raw tensor, step by step."""
    size = sum(tensor.nbytes for tensor in run.archive.stored.get(name, []))
    if statistic not in COMPUTED or not 0 < size <= _MAX_BYTES:
        return SCALAR_BUCKETS.empty_table()
    try:
        table = run.tensor(name).statistics(statistic)
    except (NotCapturedError, NotYetError):
        return SCALAR_BUCKETS.empty_table()
    for column, value in selected.items():
        table = table.filter(pc.equal(table[column], value)) if value else table
    values = table["value"].to_numpy()
    is_finite = np.isfinite(values)
    finite_values = np.where(is_finite, values, np.nan)
    stamps = [pc.fill_null(table[column], 0) for column in ("mode_step", "time_ns")]
    names = pa.repeat(pa.scalar(name, pa.string()), table.num_rows)
    stamped = zip(*(table[column].to_pylist() for column in ("worker", "step", "mode")), strict=True)
    steps = pa.array([run.archive.axis(worker).position(step, mode) for worker, step, mode in stamped], pa.int64())
    columns = [names, table["mode"], table["worker"], steps, *stamps, values, finite_values, finite_values]
    counts = [(~is_finite).astype(np.int64), np.ones(len(values), np.int64)]
    return pa.table([*columns, *counts], schema=SCALAR_BUCKETS)


def stored_at(
    run: Run, name: str, step: int | None, worker: str | None, mode: str | None = None
) -> StoredTensor | None:
    """Return the raw tensor stored at or nearest to a step of a mode; None if it was never stored.

    Args:
        step: None: the last.
        worker: None: the first with the tensor.
        mode: None: train, or the first mode in which it was stored.
    """
    candidates = stored_in(run, name, worker, mode)
    if step is None:
        return max(candidates, key=lambda tensor: tensor.step, default=None)
    return min(candidates, key=lambda tensor: abs(run.archive.step_of(tensor) - step), default=None)


def stored_in(run: Run, name: str, worker: str | None, mode: str | None = None) -> list[StoredTensor]:
    """Return the raw tensors stored in a mode; the arguments are those of ``stored_at``."""
    stored = [tensor for tensor in run.archive.stored.get(name, []) if worker in (None, tensor.worker)]
    modes = {tensor.mode for tensor in stored}
    chosen = mode or next((known for known in MODES if known in modes), "train")
    return [tensor for tensor in stored if tensor.mode == chosen]


def bytes_of(run: Run, name: str, stored: StoredTensor, worker: str | None) -> int:
    """Return the size of a raw tensor; the arguments are those of ``load``."""
    tensor = run.tensor(name)
    if worker is not None or not tensor.is_sharded:
        return stored.nbytes
    shards = run.archive.stored_at(name, run.archive.step_of(stored), stored.mode)  # with replicas
    largest = max(shards, key=lambda shard: shard.nbytes)
    return largest.nbytes * math.prod(tensor.shape or ()) // max(1, math.prod(largest.shape))


def load(run: Run, name: str, stored: StoredTensor, worker: str | None) -> npt.NDArray[Any]:
    """Load the elements of a raw tensor.

    Args:
        worker: None: of a sharded tensor the whole.
    Raises:
        NotCapturedError: A shard was not stored.
        DamagedRunError: It cannot be read.
    """
    if worker is not None or not run.tensor(name).is_sharded:
        return stored.load()
    return run.tensor(name).value(run.archive.step_of(stored), None, stored.mode)


def load_for_display(
    run: Run, name: str, stored: StoredTensor, worker: str | None
) -> tuple[npt.NDArray[Any] | None, str]:
    """Load the elements of a tensor for display; or None, and the reason. The arguments are those of ``load``."""
    if (nbytes := bytes_of(run, name, stored, worker)) > _MAX_BYTES:
        return None, f"{nbytes / 1e6:,.0f} MB is too large to display; download the tensor"
    try:
        return load(run, name, stored, worker), ""
    except NotCapturedError:
        return None, "not all workers have stored their shards; choose a worker"
    except DamagedRunError as error:
        return None, str(error)


def raw_values(
    run: Run, name: str, step: int | None, worker: str | None, mode: str | None = None
) -> tuple[npt.NDArray[Any] | None, str, int]:
    """Return the elements of a raw tensor at a step of a mode; or None, and the reason.

    Args:
        step: None: the last at which it was stored.
    Returns:
        The elements, the reason, and the step.
    """
    stored = stored_at(run, name, step, worker, mode)
    if stored is not None and step in (None, stored_step := run.archive.step_of(stored)):
        if stored.is_text:
            return None, f"the elements of {name} are texts", stored_step
        return *load_for_display(run, name, stored, worker), stored_step
    try:
        return run.tensor(name).value(step or 0, worker, mode), "", step or 0
    except (NotCapturedError, NotYetError, DamagedRunError) as error:
        return None, str(error), step or 0


def as_image(values: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """Return a tensor as a matrix, rows by the first dimension, all others as columns; None with fewer than two.

    Args:
        values: ``(rows, *others)``.
    """
    if values.ndim < 2 or values.size < 4:
        return None
    matrix = np.abs(values) if np.iscomplexobj(values) else values
    return np.asarray(matrix, np.float64).reshape(values.shape[0], -1)
