"""Catalog of charts: steps, job and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.bucketed_time import ranks_of
from leadline.analysis.job import interruptions
from leadline.analysis.ranks import Ranks
from leadline.charts import phases, scalars
from leadline.charts import steps as step_figures
from leadline.charts.chart import CatalogChart, ChartView, Moment
from leadline.charts.theme import plain_text
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.names import rank_of

MAX_RANKS: Final = 64
"""Maximum number of ranks in a chart; of more, the slowest and fastest are drawn."""
_MAX_LAST_STEPS: Final = 1000
_MAX_STEPS_DRAWN: Final = 4000
"""Enough buckets for one per step of the last steps, evaluations between them included."""
_MAX_TRACKED_STEPS: Final = 400
"""Up to this many steps of a worker are drawn as tracks, more as shares."""
_MAX_RANK_LINES: Final = 8
_MAX_RANK_POINTS: Final = 400


@CatalogChart
def step_durations(
    view: ChartView, *, worker: str | None = None, mode: str | None = None, is_log: bool | None = None
) -> go.Figure:
    """Draw the time of each step; long steps are marked."""
    return step_figures.durations(view.steps(worker, mode), is_log=is_log)


@CatalogChart
def step_histogram(view: ChartView, *, worker: str | None = None, mode: str | None = None) -> go.Figure:
    """Draw the distribution of step times for each worker and mode."""
    return step_figures.histogram(view.digest.step_durations(worker, mode))


@CatalogChart
def step_timeline(
    view: ChartView, steps: int = 30, *, worker: str | None = None, mode: str | None = None, end: int | None = None
) -> go.Figure:
    """Draw the phases of each of the last steps.

    Args:
        steps: Number of steps.
        worker: None: the first.
        end: Step before which they end; None: the last ones.
    """
    worker, count = worker or next(iter(view.digest.workers()), None), min(steps, _MAX_LAST_STEPS)
    ends = [*view.digest.steps(worker, mode, points=2)["end_step"].to_pylist(), 0]
    end = max(ends) if end is None else min(max(ends), end)
    table = view.digest.steps(worker, mode, max(0, end - count), end, points=_MAX_STEPS_DRAWN)  # one bucket per step
    return step_figures.timeline(table, last=count)


@CatalogChart
def step_phases(view: ChartView) -> go.Figure:
    """Draw the phases of all training steps as a pie."""
    missing = "no training step was timed yet"
    return phases.pie(view.digest.phases(mode="train"), title="Training step phases", missing=missing)


@CatalogChart
def training_phases(
    view: ChartView, *, worker: str | None = None, start: Moment = None, end: Moment = None
) -> go.Figure:
    """Draw the training phases over time, few steps as tracks, many as shares.

    Args:
        worker: None: all as shares, the first as tracks.
    """
    view = view.between(start, end)
    table = view.steps(worker)
    if not table.num_rows:
        return phases.over_time(table, missing="no step was timed in this interval")
    drawn = worker or min(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    if pc.sum(table.filter(pc.equal(table["worker"], drawn))["count"]).as_py() > _MAX_TRACKED_STEPS:
        return phases.over_time(table)
    first, last = view.digest.span_ns()
    first = first if view.start_ns is None else view.start_ns
    return phases.tracks(view.digest.timeline(drawn, first, last + 1 if view.end_ns is None else view.end_ns))


@CatalogChart
def progress(view: ChartView) -> go.Figure:
    """Draw steps over time, with initialization, finalization and interruptions."""
    table = view.steps()
    pauses = interruptions(view.run.status_document, table)
    return phases.progress(table, job=view.digest.job(), interruptions=pauses)


@CatalogChart
def job(view: ChartView) -> go.Figure:
    """Draw a pie of initialization, training loop and finalization."""
    return phases.job_phases(view.digest.job())


@CatalogChart
def rank_times(view: ChartView) -> go.Figure:
    """Draw the step phases of each rank, and note the straggler; of many, the slowest and fastest ranks."""
    return step_figures.rank_phases(charted_ranks(ranks_of(view.digest)))


@CatalogChart
def rank_step_times(view: ChartView) -> go.Figure:
    """Draw the median step time of each rank without waiting for others; of many, the slowest and fastest."""
    return step_figures.rank_times(charted_ranks(ranks_of(view.digest)))


@CatalogChart
def rank_durations(view: ChartView, *, is_log: bool | None = None) -> go.Figure:
    """Draw the training step times of the ranks over steps; of many, those of the slowest and fastest."""
    workers = charted_workers(view.run, ranks_of(view.digest))
    tables = [view.at_most(_MAX_RANK_POINTS).steps(worker, "train") for worker in workers]
    return step_figures.durations(pa.concat_tables(tables), title="Training step time", is_log=is_log)


@CatalogChart
def replicas(view: ChartView, tensor: str, statistic: str = "value", *, is_log: bool | None = None) -> go.Figure:
    """Draw one statistic of one tensor in the training steps of all workers."""
    missing = "not captured by any worker in training steps"
    label = plain_text(statistic.replace("_", " "), 40)
    title = f"{label} of {plain_text(tensor, 60)}"
    return scalars.scalars(view.statistic(tensor, statistic, "train"), title=title, is_log=is_log, missing=missing)


def charted_ranks(ranks: Ranks | None) -> Ranks | None:
    """Return the ranks that a chart shows: all, or the slowest and fastest of many."""
    if ranks is None or len(ranks.by_rank) <= MAX_RANKS:
        return ranks
    selected = set(_extremes(slowest_first(ranks), MAX_RANKS)) | ({ranks.straggler.rank} if ranks.straggler else set())
    return Ranks({rank: ranks.by_rank[rank] for rank in sorted(selected)}, ranks.steps, ranks.straggler)


def charted_workers(run: Run, ranks: Ranks | None) -> Sequence[str | None]:
    """Return the workers whose steps are drawn over time: all, or the slowest and fastest of many."""
    if ranks is None:
        return [None]
    documents = documents_by_rank(run)
    selected = _extremes(slowest_first(ranks), _MAX_RANK_LINES)
    return sorted((documents[rank][0] for rank in selected if rank in documents), key=natural_sort_key)


def slowest_first(ranks: Ranks) -> list[int]:
    """Return the ranks by their time outside collectives, the straggler and then the slowest first.

    Ranks that wait for each other take the same time for a step.
    """
    straggler = ranks.straggler.rank if ranks.straggler else None
    return sorted(ranks.by_rank, key=lambda rank: (rank != straggler, -ranks.own_ms(rank), rank))


def _extremes(ranks: list[int], limit: int) -> list[int]:
    return ranks if len(ranks) <= limit else [*ranks[: limit // 2], *ranks[-(limit // 2) :]]


def documents_by_rank(run: Run) -> dict[int, tuple[str, str]]:
    """Return the latest worker of each rank, and its node."""
    latest = sorted(run.worker_documents().items(), key=lambda item: item[1].started_ns)
    return {rank: (name, document.node or "") for name, document in latest if (rank := rank_of(name)) is not None}
