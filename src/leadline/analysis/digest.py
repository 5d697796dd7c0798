"""Digest of a run for charts: every series over time or steps, reduced to a limited number of buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_series import StoredValues, scalar_order
from leadline.analysis.digest_steps import StepDistribution, StoredSteps, distribution
from leadline.analysis.digest_system import SYSTEM_BUCKETS, Names, StoredSamples, grid, matching
from leadline.analysis.job import JobPhases, job_of
from leadline.analysis.stored_rows import Edges, Series, Stream
from leadline.analysis.time_document import Utilization
from leadline.analysis.train_axis import LayerMatrix, layers_on_axis, steps_on_axis, values_on_axis
from leadline.analysis.usage import is_rate, is_summary_metric, usage_row
from leadline.reader.compacted import DamagedPartError
from leadline.reader.interval import Sensor
from leadline.reader.run import Run
from leadline.reader.step_axis import StepAxis
from leadline.reader.window import natural_sort_key
from leadline.records.names import JOB_ENDED, MODES, PARTS
from leadline.records.series import TensorInfo

POINTS = 600
Place = Callable[[pa.Table, StepAxis, str], pa.Table]
T = TypeVar("T")


class Digest:
    """Chart data of one run.

    **Train steps**: every ``step`` is a train step; what was recorded in other modes stands at the train step that had
    been finished then, and the batches of one evaluation are one bucket.

    **Stable**: buckets are on a fixed grid of widths 1, 2, 3, 4, 6, 8, 12 … steps or seconds, so they do not shift
    when one zooms in or the run grows; a bucket that overlaps an interval is included completely. Times are ns since
    the epoch. Compacted data is read from the compacted files, a few kilobytes per query, and newer data from the
    segments; the results are the same.

    Args:
        max_bytes: The maximum size of the uncompacted part of a stream that is read; a larger part is omitted until it
            is compacted, and ``is_preparing`` is set. None for no limit.
    """

    def __init__(self, run: Run, max_bytes: int | None = None) -> None:
        self.run = run
        self._max_bytes = max_bytes
        self._samples = StoredSamples(run.path)
        self._steps = StoredSteps(run.path)
        self._values = StoredValues(run.path)
        self._answers: dict[Any, tuple[int, Any]] = {}
        self._axes: dict[str, tuple[int, StepAxis]] = {}
        self.refresh()

    @property
    def is_preparing(self) -> bool:
        """Whether large parts of the run wait for compaction, so that results are incomplete."""
        return any(stream.is_waiting for stream in self._streams())

    @property
    def progress(self) -> float | None:
        """The share of the run that is included in results, 0 to 1; None if it is complete."""
        if not self.is_preparing:
            return None
        shares = [stream.share() for stream in self._streams()]
        return sum(taken for taken, _ in shares) / max(sum(total for _, total in shares), 1)

    @property
    def version(self) -> int:
        """A number that changes whenever there is new data; equal versions give equal results."""
        return sum(rows.version for rows in self._stored())

    def refresh(self) -> Digest:
        """Read new data."""
        for rows in self._stored():
            rows.refresh(self._max_bytes)
        return self

    # --- run -----------------------------------------------------------------------------------------------

    def workers(self) -> list[str]:
        """Return the workers that have written data or a worker document, in natural order."""
        written = {*self._steps.streams, *self._values.streams}
        return sorted(written | set(self.run.worker_documents()), key=natural_sort_key)

    @property
    def damage(self) -> list[str]:
        """One line for each part that was requested and could not be read."""
        return [line for stream in self._streams() for line in stream.damage]

    def span_ns(self) -> tuple[int, int]:
        """Return the start of the run, and its end or last record."""
        start, status = self.run.manifest.started_ns, self.run.status_document
        if status.ended_ns is not None:
            return start, max(start, status.ended_ns)
        latest = [rows.latest_ns for rows in self._stored()]
        return start, max([start, *(time_ns for time_ns in latest if time_ns is not None)])

    def job(self) -> JobPhases:
        """Return the phases of the job from start to end."""
        ended = self.run.status_document.ended_ns if self.run.status in JOB_ENDED else None
        return job_of(
            self._skip_damaged(self._steps.events),
            self._steps.span_ns(),
            latest_ns=self._steps.latest_ns,
            started_ns=self.run.manifest.started_ns,
            ended_ns=ended,
        )

    def events(
        self, worker: str | None = None, start_ns: int | None = None, end_ns: int | None = None, limit: int = 1000
    ) -> pa.Table:
        """Return the timeline rows outside of steps: imports, setup, finalization, events.

        Shape:
            As ``Run.timeline``; the first ``limit`` rows of the interval.
        """
        rows = self._skip_damaged(lambda: self._steps.events(worker))
        if start_ns is not None:
            rows = rows.filter(pc.greater_equal(pc.add(rows["start_ns"], rows["duration_ns"]), start_ns))
        if end_ns is not None:
            rows = rows.filter(pc.less(rows["start_ns"], end_ns))
        return rows.slice(0, limit)

    def timeline(self, worker: str, start_ns: int, end_ns: int, max_bytes: int = 48 << 20) -> pa.Table:
        """Return every timeline row of a worker that overlaps a short interval, as ``Run.timeline``.

        Args:
            max_bytes: The maximum number of bytes to read; rows beyond are omitted.
        """
        return self._steps.rows_between(worker, start_ns, end_ns, max_bytes)

    # --- system metrics -----------------------------------------------------------------------------------

    def channels(self) -> list[Sensor]:
        """Return all sensors, in natural order."""
        return self._samples.sensors()

    def system(
        self,
        kind: Names = None,
        metric: Names = None,
        device: Names = None,
        node: Names = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        points: int = POINTS,
    ) -> pa.Table:
        """Return system metrics.

        Shape:
            One row per bucket with samples, ordered by sensor and time: ``node, kind, device, metric, time_ns`` (the
            middle of the bucket)``, mean, min, max, samples``.
        Args:
            kind, metric, device, node: One or several names; None for all.
            start_ns, end_ns: ``start_ns <= time < end_ns``, extended to whole buckets.
            points: The maximum number of buckets per sensor.
        """
        sensors = matching(self.channels(), kind=kind, metric=metric, device=device, node=node)
        if not sensors:
            return SYSTEM_BUCKETS.empty_table()
        width, first, last = grid(self.span_ns(), start_ns, end_ns, points)
        low = first if start_ns is not None else None
        return self._skip_damaged(lambda: self._samples.buckets(sensors, width, low, last))

    def usage(self, start_ns: int | None = None, end_ns: int | None = None) -> list[Utilization]:
        """Return exact percentiles of the summary metrics, as ``analysis.usage.usage``."""
        sensors = [sensor for sensor in self._samples.sensors() if is_summary_metric(*sensor[1:])]

        def rows() -> list[Utilization]:
            found = self._samples.values(sensors, start_ns, end_ns)
            rates = [sensor for sensor in sensors if is_rate(sensor.metric)]
            times = dict(self._samples.values(rates, start_ns, end_ns, "time_ns"))
            return [usage_row(sensor, times.get(sensor, values), values) for sensor, values in found if len(values)]

        return self._cached(("usage", start_ns, end_ns), rows)

    # --- steps --------------------------------------------------------------------------------------------

    def steps(
        self,
        worker: str | None = None,
        mode: str | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        points: int = POINTS,
    ) -> pa.Table:
        """Return steps and their phases.

        Shape:
            One row per bucket, ordered by worker and mode: ``worker, mode, step`` (the first)``, end_step, start_ns,
            end_ns, count, duration_ns`` (the sum)``, longest_ns, shortest_ns, longest_step`` and the sum of each phase,
            ``data_ns`` …
        """

        def tables() -> pa.Table:
            edges = {
                series: self._clipped(self._steps.between(series, start_ns, end_ns), series[0], start_step, end_step)
                for series in self._steps.series((), worker, mode)
            }
            return self._steps.buckets(edges, points, self._placed(steps_on_axis))

        return self._skip_damaged(tables)

    def step_durations(
        self, worker: str | None = None, mode: str | None = None, bins: int = 60
    ) -> dict[str, StepDistribution]:
        """Return step times in seconds, by ``worker/mode``: ``count, mean, min, p50, p95, p99, max, edges, counts``.

        There are ``bins`` counts and one more edge; the bins have equal widths, or equal ratios if the longest step
        takes ten times as long as the shortest.
        """
        return {
            f"{series[0]}/{series[1][0]}": self._cached(
                ("durations", series, bins),
                lambda series=series: distribution(*self._steps.durations(series), bins),  # type: ignore[misc]
            )
            for series in self._steps.series((), worker, mode)
        }

    def phases(
        self, start_ns: int | None = None, end_ns: int | None = None, worker: str | None = None, mode: str | None = None
    ) -> dict[str, float]:
        """Return the seconds per phase in an interval, over all workers; partially covered steps count in part."""

        def sums() -> Any:
            parts = [self._steps.parts_in(series, start_ns, end_ns) for series in self._steps.series((), worker, mode)]
            return np.sum(parts, axis=0) if parts else np.zeros(len(PARTS))

        totals = self._skip_damaged(sums)
        return {name: float(total) / 1e9 for name, total in zip(PARTS, totals, strict=True) if total > 0}

    # --- series -------------------------------------------------------------------------------------------

    def infos(self) -> dict[str, TensorInfo]:
        """Return the metadata of each tensor with captured statistics, in the order of appearance."""
        return self._values.infos()

    def captured(self) -> dict[str, dict[str, set[str]]]:
        """Return the workers that captured a statistic, by tensor and statistic."""
        return self._values.captured()

    def scalar_names(self) -> list[tuple[str, str]]:
        """Return the names and modes of scalars: losses, then metrics, then the others."""
        infos, modes = self._values.infos(), self._values.modes_of("value")
        positions = {name: position for position, name in enumerate(infos)}
        ordered = sorted(modes, key=lambda name: (scalar_order(infos[name]), positions[name]))
        return [(name, mode) for name in ordered for mode in MODES if mode in modes[name]]

    def scalar(
        self,
        name: str,
        mode: str | None = None,
        worker: str | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        points: int = POINTS,
    ) -> pa.Table:
        """Return a loss, a metric or another scalar over steps.

        Shape:
            One row per bucket, ordered by worker and mode: ``name, mode, worker, step, mode_step, time_ns, value``
            (the last four at the bucket's last finite value; of an evaluation, the mean)``, min, max`` (of finite
            values)``, nonfinite, samples``.
        Not a number:
            Counted in ``nonfinite``; ``value``, ``min`` and ``max`` are NaN only if no value is finite.
        """
        return self.statistic(name, "value", mode, worker, start_step, end_step, points)

    def statistic(
        self,
        tensor: str,
        statistic: str,
        mode: str | None = None,
        worker: str | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        points: int = POINTS,
    ) -> pa.Table:
        """Return one statistic of one tensor over steps; the columns are those of ``scalar``."""

        def tables() -> pa.Table:
            edges = {
                series: self._clipped(self._values.bounds(series), series[0], start_step, end_step)
                for series in self._values.series((statistic, tensor), worker, mode)
            }
            return self._values.buckets(edges, points, self._placed(values_on_axis))

        return self._skip_damaged(tables)

    def layers(
        self, collection: str, statistic: str, mode: str = "train", worker: str | None = None, points: int = 200
    ) -> LayerMatrix:
        """Return one statistic of the tensors of a collection, in the order of the model.

        Args:
            worker: The worker; None for the first worker that captured it.
        Returns:
            ``tensors``, ``steps`` (the first of each bucket) and ``values``, an array tensors x steps: NaN where
            nothing was captured, infinite where a value was not finite.
        """
        infos = self._values.infos()
        names = [name for name, info in infos.items() if collection in ("all", *info.collections)]

        def matrix() -> LayerMatrix:
            found = [self._values.series((statistic, name), worker, mode) for name in names]
            chosen = [series[0] for series in found if series]
            data = self._values.matrix(chosen, points)
            return layers_on_axis(data, self._axis(chosen[0][0]), mode) if chosen else data

        return self._skip_damaged(matrix)

    def _axis(self, worker: str) -> StepAxis:
        """Return the train steps of a worker, from the stamps of its values and of its steps."""
        known = self._axes.get(worker)
        version = self._values.version + self._steps.version
        if known is None or known[0] != version:
            axis = StepAxis([*self._values.stamps(worker), *self._steps.stamps(worker)])
            known = self._axes[worker] = (version, axis)
        return known[1]

    def _placed(self, place: Place) -> Callable[[Series, pa.Table], pa.Table]:
        return lambda series, table: place(table, self._axis(series[0]), series[1][-1])

    def _clipped(self, edges: Edges | None, worker: str, start_step: int | None, end_step: int | None) -> Edges | None:
        if edges is None or (start_step is None and end_step is None):
            return edges
        low, high = self._axis(worker).global_range(start_step, end_step)
        first = edges[0] if low is None else max(edges[0], low)
        last = edges[1] if high is None else min(edges[1], high - 1)
        return (first, last) if first <= last else None

    # --- streams ------------------------------------------------------------------------------------------

    def _stored(self) -> tuple[StoredSamples, StoredSteps, StoredValues]:
        return self._samples, self._steps, self._values

    def _streams(self) -> Iterator[Stream[Any]]:
        for rows in self._stored():
            yield from rows.streams.values()

    def _skip_damaged(self, query: Callable[[], T]) -> T:
        """Return the result of a query, ignoring compacted files that turn out to be damaged."""
        while True:
            try:
                return query()
            except DamagedPartError as error:
                if not self._forget(str(error)):
                    raise

    def _forget(self, path: str) -> bool:
        """Ignore a compacted file; return whether it was in use."""
        affected = [stream for stream in self._streams() if any(part.path == path for part in stream.parts)]
        for stream in affected:
            stream.forget(path)
            stream.refresh(self._max_bytes)
        return bool(affected)

    def _cached(self, key: Any, query: Callable[[], T]) -> T:
        """Return the result of an expensive query, cached until there is new data."""
        entry = self._answers.get(key)
        if entry is None or entry[0] != self.version:
            entry = self._answers[key] = (self.version, self._skip_damaged(query))
            while len(self._answers) > _MAX_CACHED:
                self._answers.pop(next(iter(self._answers)))
        return entry[1]


_MAX_CACHED = 64
