"""The charts of a run as a notebook asks for them: each takes the run, and gives a Plotly figure or a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import plotly.graph_objects as go
import pyarrow as pa

from leadline.analysis.call_tree import call_tree as tree_of
from leadline.analysis.digest import Digest
from leadline.analysis.histograms import read_histograms
from leadline.analysis.interruptions import interruptions
from leadline.analysis.operators import top_operators
from leadline.analysis.ranks import compare_ranks
from leadline.analysis.steps import read_steps
from leadline.errors import NotCapturedError
from leadline.exports.perfetto import Exported, export_trace
from leadline.exports.span import Span, parse_span
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
from leadline.reader.python_profiles import CallTrees, Order
from leadline.reader.run import Run

Moment = int | str | None
"""A step (``120``), or a time after the start of the run (``"90s"``, ``"5min"``); None: no bound."""
Names = str | Sequence[str] | None
_FINE = 4000
"""So many buckets are asked for where a distribution is made of them."""
_MOST_DIGESTS = 4
"""Of so many runs what was read is kept from chart to chart."""


# --- the machine ------------------------------------------------------------------------------------------


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
    """A metric of the machine over time.

    Args:
        kind: ``cpu``, ``gpu``, ``memory``, ``disk``, ``network`` or ``process``.
        metric: ``utilization_percent``, ``memory_used_percent``, ``received_bytes_per_second`` …
        devices: ``core3``, ``gpu0``, ``total`` …, or several; None: all, and beyond twenty their mean.
        node: Only of this one.
        start, end: Of this part of the run: steps (``120``), or times after its start (``"90s"``).
    """
    span = _span(run, start, end)
    table = _digest(run).system(kind, metric, devices, node, span.start_ns, span.end_ns)
    several = len(set(zip(table["node"].to_pylist(), table["device"].to_pylist(), strict=True)))
    return usage.usage(table, together=several > theme.MOST_SERIES, missing=_unmeasured(kind))


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
    """How often a metric of the machine had which value, device by device; the arguments are the same."""
    span = _span(run, start, end)
    table = _digest(run).system(kind, metric, devices, node, span.start_ns, span.end_ns, points=_FINE)
    return usage.histogram(table, missing=_unmeasured(kind))


def heat_map(run: Run, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """The use of every core and every GPU over time, a row each."""
    span = _span(run, start, end)
    table = _digest(run).system(["cpu", "gpu"], "utilization_percent", None, node, span.start_ns, span.end_ns)
    return utilization_heat_map.heat_map(table)


# --- steps ------------------------------------------------------------------------------------------------


def step_durations(run: Run, *, worker: str | None = None, mode: str | None = None) -> go.Figure:
    """How long each step took; long ones are marked."""
    return step_charts.durations(_digest(run).steps(worker, mode))


def step_histogram(run: Run, *, worker: str | None = None, mode: str | None = None) -> go.Figure:
    """How often a step took how long, for each worker and mode."""
    return step_charts.histogram(_digest(run).step_durations(worker, mode))


def step_timeline(
    run: Run, steps: int = 30, *, worker: str | None = None, mode: str | None = None, end: int | None = None
) -> go.Figure:
    """What each of the last steps was made of.

    Args:
        steps: So many steps.
        worker: None: the first.
        end: The step before which they end; None: the last ones.
    """
    digest = _digest(run)
    last = end if end is not None else max(digest.steps(worker, mode, points=1)["end_step"].to_pylist(), default=0)
    found = digest.steps(
        worker, mode, max(0, last - steps), last, points=2 * max(steps, 1) + 2
    )  # on a grid of single steps
    return step_charts.timeline(found, last=steps)


def timeline_charts(run: Run, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """The machine above the phases of the training, on one time axis: zooming or panning one moves all.

    ``selection`` tells what ran in an interval that one sees there.
    """
    span, digest = _span(run, start, end), _digest(run)
    bounds = (node, span.start_ns, span.end_ns)
    gpus = digest.system("gpu", "utilization_percent", None, *bounds)
    are_many = len(set(zip(gpus["node"].to_pylist(), gpus["device"].to_pylist(), strict=True))) > theme.MOST_BANDS
    parts = [
        usage.usage(digest.system("cpu", "utilization_percent", "total", *bounds)),
        usage.usage(gpus, together=are_many, missing=_unmeasured("gpu")),
        usage.usage(digest.system("memory", "used_percent", "total", *bounds)),
        phases.over_time(digest.steps(start_ns=span.start_ns, end_ns=span.end_ns, points=300)),
    ]
    return linked.linked(parts, title="The machine and the training")


@dataclass(frozen=True, slots=True)
class Selection:
    """What ran in an interval.

    Units:
        Seconds, all workers together; shares of their sum.
    """

    start_ns: int
    end_ns: int
    seconds: dict[str, float]
    shares: dict[str, float]
    steps: int
    """That ended within it, over all workers; where steps were put together, of those that were touched."""

    def figure(self) -> go.Figure:
        """As one bar."""
        return shares.shares(self.seconds)


def selection(run: Run, start: Moment = None, end: Moment = None, *, worker: str | None = None) -> Selection:
    """How the time of an interval divides among the phases of the training.

    Args:
        start, end: Steps (``120``), or times after the start of the run (``"90s"``); None: from the start, to the end.
    """
    span, digest = _span(run, start, end, worker), _digest(run)
    seconds = digest.phases(span.start_ns, span.end_ns, worker)
    whole = sum(seconds.values())
    first, last = digest.span_ns()
    rows = digest.steps(worker, start_ns=span.start_ns, end_ns=span.end_ns, points=_FINE)
    return Selection(
        first if span.start_ns is None else span.start_ns,
        last if span.end_ns is None else span.end_ns,
        seconds,
        {name: each / whole for name, each in seconds.items()},
        sum(rows["count"].to_pylist()),
    )


def progress(run: Run) -> go.Figure:
    """Steps over time, with initialization, finalization, and the pauses in which nothing ran."""
    digest = _digest(run)
    rows = digest.steps()
    return phases.progress(rows, job=digest.job(), interruptions=interruptions(run.status_document, rows))


def job(run: Run) -> go.Figure:
    """Initialization, training loop and finalization as a pie."""
    return shares.job_phases(_digest(run).job())


def rank_times(run: Run) -> go.Figure:
    """What a step is made of on each rank, and which rank is slowest."""
    return ranks.phases(compare_ranks(read_steps(run.timeline())))


def merged_timeline(run: Run, path: str | os.PathLike[str], *, start: Moment = None, end: Moment = None) -> Exported:
    """Write what the machine, the training and the profiler tell as one trace that Perfetto opens.

    Args:
        path: ``….json`` or ``….json.gz``.
    """
    return export_trace(run, os.fspath(path), _span(run, start, end))


# --- tensors ----------------------------------------------------------------------------------------------


def scalar(
    run: Run, name: str, *, mode: str | None = None, worker: str | None = None, is_log: bool = False
) -> go.Figure:
    """A loss, a metric or another single number over steps, with the findings marked."""
    table = _digest(run).scalar(name, mode, worker)
    shown = scalars.scalars(
        table, title=theme.plain(name), y=theme.plain(name, 40), is_log=is_log, missing=f"no number is named {name}"
    )
    return marks.mark(shown, run.findings().to_pylist()) if shown.data else shown


def losses(run: Run, *, worker: str | None = None, is_log: bool = False) -> go.Figure:
    """Every loss by mode, with the findings marked."""
    digest, known = _digest(run), set(run.tensor_names(collection="losses"))
    names = [name for name in dict.fromkeys(name for name, _ in digest.scalar_names()) if name in known]
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
    """One statistic of one tensor over steps, with the findings that name it."""
    table = _digest(run).statistic(name, statistic, mode, worker)
    shown = scalars.scalars(
        table,
        title=theme.plain(name),
        y=theme.plain(statistic, 40),
        is_log=is_log,
        missing=f"no {statistic} of {name} was captured",
    )
    mine = [each for each in run.findings().to_pylist() if name in (each["tensors"] or ())]
    return marks.mark(shown, mine) if shown.data else shown


def histogram(run: Run, name: str, *, worker: str | None = None, is_ridge: bool = False) -> go.Figure:
    """How the values of a tensor are spread, over steps: a heat map, or curves behind each other."""
    draw = values.ridge if is_ridge else values.over_steps
    return draw(read_histograms(run.tensor(name), worker=worker))


def value(run: Run, name: str, step: int, *, worker: str | None = None) -> go.Figure:
    """How the values of a tensor that was stored whole are spread at one step."""
    try:
        found = run.tensor(name).value(step, worker)
    except NotCapturedError as error:
        return theme.empty(str(error), theme.plain(name))
    return values.at_step(found, tensor=name, step=step)


def layers(
    run: Run,
    collection: str = "gradients",
    statistic: str = "abs_mean",
    *,
    mode: str = "train",
    worker: str | None = None,
) -> go.Figure:
    """One statistic of the tensors of a collection, layers over steps."""
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
    """The same number, or the same statistic of a tensor, of two runs on one axis."""
    names = [run.name, other.name if other.name != run.name else f"{other.name} (2)"]
    tables = {
        title: _digest(each).statistic(name, statistic, mode, worker)
        for title, each in zip(names, (run, other), strict=True)
    }
    label = name if statistic == "value" else statistic
    return scalars.compare(tables, title=theme.plain(name), y=theme.plain(label, 40), is_log=is_log)


# --- profiles ---------------------------------------------------------------------------------------------


def dearest_operators(run: Run, *, window: str | None = None, device: str | None = None, most: int = 15) -> go.Figure:
    """The operators that took most time, by phase and module.

    Args:
        device: ``cpu``, or ``gpu`` for all accelerators; None: all.
    """
    try:
        found = run.operators(window=window)
    except NotCapturedError as error:
        return theme.empty(str(error), "The dearest operators")
    return operators.bars(top_operators(found, device=device, most=most), most=most)


def call_tree(run: Run, *, window: str | None = None, step: int | tuple[int, int] | None = None) -> go.Figure:
    """The call tree that pyinstrument saw, as a flame graph."""
    try:
        profile = run.python_profile(kind="pyinstrument", window=window, step=step)
    except NotCapturedError as error:
        return theme.empty(str(error), "Where Python spent its time")
    return flames.icicle(tree_of(profile.flames()) if isinstance(profile, CallTrees) else [])


def functions_by_step(
    run: Run,
    start: int | None = None,
    end: int | None = None,
    *,
    kind: str = "cprofile",
    timer: str = "total",
    mode: str | None = None,
    phase: str | None = None,
    by: Order = "own",
    most: int | None = 20,
) -> pa.Table:
    """The Python functions that took most in the steps ``start <= step < end``.

    Shape:
        A row a function: ``function, file, line, calls, primitive_calls, own_seconds, cumulative_seconds``.
    Raises:
        NotCapturedError: No such window was recorded.
    """
    step = None if start is None and end is None else (start or 0, 1 << 62 if end is None else end)
    return _spoken(run.python_profile(kind=kind, timer=timer, step=step, mode=mode, phase=phase).top(by, most))


def functions_by_time(
    run: Run,
    start: Moment = None,
    end: Moment = None,
    *,
    kind: str = "cprofile",
    timer: str = "total",
    by: Order = "own",
    most: int | None = 20,
) -> pa.Table:
    """The Python functions that took most between two moments; the columns are those of ``functions_by_step``."""
    span = _span(run, start, end)
    time_ns = (span.start_ns or 0, (1 << 62) if span.end_ns is None else span.end_ns)
    return _spoken(run.python_profile(kind=kind, timer=timer, time_ns=time_ns).top(by, most))


def functions_between_modes(
    run: Run,
    first: str = "train",
    second: str = "eval",
    *,
    kind: str = "cprofile",
    timer: str = "total",
    by: Order = "own",
    most: int | None = 20,
) -> pa.Table:
    """The Python functions that took most in the steps of one mode that follow a step of another.

    The columns are those of ``functions_by_step``.
    """
    return _spoken(run.python_profile(kind=kind, timer=timer, between=(first, second)).top(by, most))


def _spoken(table: pa.Table) -> pa.Table:
    """Times in seconds."""
    names = {"own_ns": "own_seconds", "cumulative_ns": "cumulative_seconds"}
    columns = {
        names.get(name, name): [None if each is None else each / 1e9 for each in table[name].to_pylist()]
        if name in names
        else table[name]
        for name in table.column_names
    }
    return pa.table(columns)


# --- what they share --------------------------------------------------------------------------------------


def _digest(run: Run) -> Digest:
    """The digest of a run as far as the run has been read."""
    return _made(run).refresh()


@lru_cache(maxsize=_MOST_DIGESTS)
def _made(run: Run) -> Digest:
    return Digest(run)


def _span(run: Run, start: Moment, end: Moment, worker: str | None = None) -> Span:
    """Steps are those of a worker, or of the first that begins one."""
    if start is None and end is None:
        return Span()
    words: list[Any] = [None if each is None else str(each) for each in (start, end)]
    started_ns = run.manifest.started_ns
    return parse_span(
        *words, timeline=run.timeline("step", worker=worker), started_ns=started_ns, names=("start", "end")
    )


def _unmeasured(kind: str) -> str:
    return "no GPU on this node" if kind == "gpu" else f"{kind} was not measured"
