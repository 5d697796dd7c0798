"""Notebook API: functions that take a run and return a Plotly figure or a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import plotly.graph_objects as go
import pyarrow as pa

from leadline.analysis.call_tree import call_tree as tree_of
from leadline.analysis.digest import Digest
from leadline.analysis.histograms import read_histograms
from leadline.analysis.interruptions import interruptions
from leadline.analysis.operators import top_operators as rank_operators
from leadline.analysis.ranks import compare_ranks
from leadline.analysis.steps import read_steps
from leadline.errors import NotCapturedError
from leadline.exports.perfetto import ExportedTrace, export_trace
from leadline.figures import (
    flames,
    layer_heat_map,
    linked,
    marks,
    operators,
    phases,
    ranks,
    scalars,
    shares,
    theme,
    usage,
    utilization_heat_map,
    values,
)
from leadline.figures import steps as step_charts
from leadline.figures.function_tables import functions_between_modes as functions_between_modes
from leadline.figures.function_tables import functions_by_step as functions_by_step
from leadline.figures.function_tables import functions_by_time as functions_by_time
from leadline.figures.interval import Moment, parse_interval
from leadline.reader.python_profiles import CallTrees
from leadline.reader.run import Run

Names = str | Sequence[str] | None
_MAX_BUCKETS = 4000
"""Number of buckets requested for distributions."""
_MAX_DIGESTS = 4
"""Number of runs whose data is cached between charts."""


# --- hardware ---------------------------------------------------------------------------------------------


def metrics_over_time(
    run: Run,
    kind: str = "cpu",
    metric: str = "utilization_percent",
    devices: Names = None,
    *,
    node: str | None = None,
    start: Moment = None,
    end: Moment = None,
) -> go.Figure:
    """Draw a system metric over time.

    Args:
        kind: ``cpu``, ``gpu``, ``memory``, ``disk``, ``network`` or ``process``.
        metric: ``utilization_percent``, ``memory_used_percent``, ``received_bytes_per_second`` …
        devices: ``core3``, ``gpu0``, ``total`` …, or several; None: all, or their mean if there are more than twenty.
        node: Only this node.
        start, end: Bounds of the interval: steps (``120``), or times since the start of the run (``"90s"``).
    """
    span = parse_interval(run, start, end)
    table = _digest(run).system(kind, metric, devices, node, span.start_ns, span.end_ns)
    series_count = len(set(zip(table["node"].to_pylist(), table["device"].to_pylist(), strict=True)))
    return usage.usage(table, is_mean=series_count > theme.MAX_SERIES, missing=_missing_message(kind))


def metrics_histogram(
    run: Run,
    kind: str = "cpu",
    metric: str = "utilization_percent",
    devices: Names = None,
    *,
    node: str | None = None,
    start: Moment = None,
    end: Moment = None,
) -> go.Figure:
    """Draw the distribution of a system metric by device; same arguments as ``metrics_over_time``."""
    span = parse_interval(run, start, end)
    table = _digest(run).system(kind, metric, devices, node, span.start_ns, span.end_ns, points=_MAX_BUCKETS)
    return usage.histogram(table, missing=_missing_message(kind))


def heat_map(run: Run, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """Draw the utilization of every core and GPU over time, a row each."""
    span = parse_interval(run, start, end)
    table = _digest(run).system(["cpu", "gpu"], "utilization_percent", None, node, span.start_ns, span.end_ns)
    return utilization_heat_map.heat_map(table)


# --- steps ------------------------------------------------------------------------------------------------


def step_durations(run: Run, *, worker: str | None = None, mode: str | None = None) -> go.Figure:
    """Draw the time of each step; long steps are marked."""
    return step_charts.durations(_digest(run).steps(worker, mode))


def step_histogram(run: Run, *, worker: str | None = None, mode: str | None = None) -> go.Figure:
    """Draw the distribution of step times for each worker and mode."""
    return step_charts.histogram(_digest(run).step_durations(worker, mode))


def step_timeline(
    run: Run, steps: int = 30, *, worker: str | None = None, mode: str | None = None, end: int | None = None
) -> go.Figure:
    """Draw the phases of each of the last steps.

    Args:
        steps: Number of steps.
        worker: None: the first.
        end: Step before which they end; None: the last ones.
    """
    digest = _digest(run)
    last = end if end is not None else max(digest.steps(worker, mode, points=1)["end_step"].to_pylist(), default=0)
    rows = digest.steps(worker, mode, max(0, last - steps), last, points=2 * max(steps, 1) + 2)  # one bucket per step
    return step_charts.timeline(rows, last=steps)


def timeline_charts(run: Run, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """Draw system metrics above the training phases on one time axis: zooming or panning one moves all.

    ``selection`` returns what ran in an interval.
    """
    span, digest = parse_interval(run, start, end), _digest(run)
    bounds = (node, span.start_ns, span.end_ns)
    gpus = digest.system("gpu", "utilization_percent", None, *bounds)
    has_many_gpus = len(set(zip(gpus["node"].to_pylist(), gpus["device"].to_pylist(), strict=True))) > theme.MAX_BANDS
    parts = [
        usage.usage(digest.system("cpu", "utilization_percent", "total", *bounds)),
        usage.usage(gpus, is_mean=has_many_gpus, missing=_missing_message("gpu")),
        usage.usage(digest.system("memory", "used_percent", "total", *bounds)),
        phases.over_time(digest.steps(start_ns=span.start_ns, end_ns=span.end_ns, points=300)),
    ]
    return linked.linked(parts, title="System metrics and training phases")


@dataclass(frozen=True, slots=True)
class Selection:
    """Time breakdown of an interval.

    Units:
        Seconds, all workers together; shares of their sum.
    """

    start_ns: int
    end_ns: int
    seconds: dict[str, float]
    shares: dict[str, float]
    steps: int
    """Steps that ended within the interval, over all workers; aggregated steps count if they overlap it."""

    def figure(self) -> go.Figure:
        """Draw the shares as one bar."""
        return shares.shares(self.seconds)


def selection(run: Run, start: Moment = None, end: Moment = None, *, worker: str | None = None) -> Selection:
    """Return the time breakdown of an interval by training phase.

    Args:
        start, end: Steps (``120``), or times since the start of the run (``"90s"``); None: unbounded.
    """
    span, digest = parse_interval(run, start, end, worker), _digest(run)
    seconds = digest.phases(span.start_ns, span.end_ns, worker)
    total = sum(seconds.values())
    first, last = digest.span_ns()
    rows = digest.steps(worker, start_ns=span.start_ns, end_ns=span.end_ns, points=_MAX_BUCKETS)
    return Selection(
        first if span.start_ns is None else span.start_ns,
        last if span.end_ns is None else span.end_ns,
        seconds,
        {name: phase_seconds / total for name, phase_seconds in seconds.items()},
        sum(rows["count"].to_pylist()),
    )


def progress(run: Run) -> go.Figure:
    """Draw steps over time, with initialization, finalization and interruptions."""
    digest = _digest(run)
    rows = digest.steps()
    return phases.progress(rows, job=digest.job(), interruptions=interruptions(run.status_document, rows))


def job(run: Run) -> go.Figure:
    """Draw a pie of initialization, training loop and finalization."""
    return shares.job_phases(_digest(run).job())


def rank_times(run: Run) -> go.Figure:
    """Draw the step phases of each rank, and note the straggler."""
    return ranks.phases(compare_ranks(read_steps(run.timeline())))


def merged_timeline(
    run: Run, path: str | os.PathLike[str], *, start: Moment = None, end: Moment = None
) -> ExportedTrace:
    """Export system metrics, training phases and profiles as one trace for Perfetto.

    Args:
        path: ``….json`` or ``….json.gz``.
    """
    return export_trace(run, os.fspath(path), parse_interval(run, start, end))


# --- tensors ----------------------------------------------------------------------------------------------


def scalar(
    run: Run, name: str, *, mode: str | None = None, worker: str | None = None, is_log: bool = False
) -> go.Figure:
    """Draw a loss, a metric or another scalar over steps, with findings marked."""
    table = _digest(run).scalar(name, mode, worker)
    fig = scalars.scalars(
        table,
        title=theme.plain_text(name),
        y=theme.plain_text(name, 40),
        is_log=is_log,
        missing=f"there is no scalar named {name}",
    )
    return marks.mark(fig, run.findings().to_pylist()) if fig.data else fig


def losses(run: Run, *, worker: str | None = None, is_log: bool = False) -> go.Figure:
    """Draw every loss by mode, with findings marked."""
    digest, loss_names = _digest(run), set(run.tensor_names(collection="losses"))
    names = [name for name in dict.fromkeys(name for name, _ in digest.scalar_names()) if name in loss_names]
    if not names:
        return theme.empty("no loss was captured", "Losses")
    table = pa.concat_tables([digest.scalar(name, None, worker) for name in names])
    return marks.mark(scalars.scalars(table, title="Losses", y="loss", is_log=is_log), run.findings().to_pylist())


def tensor(
    run: Run,
    name: str,
    statistic: str = "abs_mean",
    *,
    mode: str | None = None,
    worker: str | None = None,
    is_log: bool = False,
) -> go.Figure:
    """Draw one statistic of one tensor over steps, with the findings that name it."""
    table = _digest(run).statistic(name, statistic, mode, worker)
    fig = scalars.scalars(
        table,
        title=theme.plain_text(name),
        y=theme.plain_text(statistic, 40),
        is_log=is_log,
        missing=f"no {statistic} of {name} was captured",
    )
    findings = [finding for finding in run.findings().to_pylist() if name in (finding["tensors"] or ())]
    return marks.mark(fig, findings) if fig.data else fig


def histogram(run: Run, name: str, *, worker: str | None = None, is_ridge: bool = False) -> go.Figure:
    """Draw the distribution of a tensor's values over steps, as a heat map or ridge plot."""
    draw = values.ridge if is_ridge else values.over_steps
    return draw(read_histograms(run.tensor(name), worker=worker))


def value(run: Run, name: str, step: int, *, worker: str | None = None) -> go.Figure:
    """Draw the distribution of the values of a raw tensor at one step."""
    try:
        values_at_step = run.tensor(name).value(step, worker)
    except NotCapturedError as error:
        return theme.empty(str(error), theme.plain_text(name))
    return values.at_step(values_at_step, tensor=name, step=step)


def layers(
    run: Run,
    collection: str = "gradients",
    statistic: str = "abs_mean",
    *,
    mode: str = "train",
    worker: str | None = None,
) -> go.Figure:
    """Draw one statistic of the tensors of a collection, layers over steps."""
    return layer_heat_map.layers(_digest(run).layers(collection, statistic, mode, worker), statistic=statistic)


def compare(
    run: Run,
    other: Run,
    name: str,
    statistic: str = "value",
    *,
    mode: str | None = None,
    worker: str | None = None,
    is_log: bool = False,
) -> go.Figure:
    """Draw the same scalar, or the same statistic of a tensor, of two runs on one axis."""
    names = [run.name, other.name if other.name != run.name else f"{other.name} (2)"]
    tables = {
        title: _digest(member).statistic(name, statistic, mode, worker)
        for title, member in zip(names, (run, other), strict=True)
    }
    label = name if statistic == "value" else statistic
    return scalars.compare(tables, title=theme.plain_text(name), y=theme.plain_text(label, 40), is_log=is_log)


# --- profiles ---------------------------------------------------------------------------------------------


def top_operators(run: Run, *, window: str | None = None, device: str | None = None, limit: int = 15) -> go.Figure:
    """Draw the operators with the most own time, by phase and module.

    Args:
        device: ``cpu``, or ``gpu`` for all accelerators; None: all.
    """
    try:
        table = run.operators(window=window)
    except NotCapturedError as error:
        return theme.empty(str(error), "Top operators")
    return operators.bars(rank_operators(table, device=device, limit=limit), limit=limit)


def call_tree(run: Run, *, window: str | None = None, step: int | tuple[int, int] | None = None) -> go.Figure:
    """Draw the call tree sampled by pyinstrument as a flame graph."""
    try:
        profile = run.python_profile(kind="pyinstrument", window=window, step=step)
    except NotCapturedError as error:
        return theme.empty(str(error), "Python call tree")
    return flames.icicle(tree_of(profile.flames()) if isinstance(profile, CallTrees) else [])


# --- shared helpers ---------------------------------------------------------------------------------------


def _digest(run: Run) -> Digest:
    """Return the cached digest of a run, refreshed."""
    return _cached_digest(run).refresh()


@lru_cache(maxsize=_MAX_DIGESTS)
def _cached_digest(run: Run) -> Digest:
    return Digest(run)


def _missing_message(kind: str) -> str:
    return "no GPU on this node" if kind == "gpu" else f"{kind} was not measured"
