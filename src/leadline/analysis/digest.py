"""A run as charts ask for it: everything that has a time or step axis, reduced to at most so many buckets a series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis import digest_system
from leadline.analysis.buckets import width_of
from leadline.analysis.digest_series import SCALAR_BUCKETS, Values, matrix, scalar_order
from leadline.analysis.digest_steps import STEP_BUCKETS, distribution
from leadline.analysis.digest_system import SYSTEM_BUCKETS, Names, sensor_order
from leadline.analysis.job import JobPhases, job_of
from leadline.analysis.steps import PARTS
from leadline.analysis.stored_samples import StoredSamples, matching
from leadline.analysis.stored_steps import Series, StoredSteps
from leadline.analysis.stored_values import StoredValues
from leadline.analysis.streams import Streams
from leadline.analysis.usage import is_watched, usage_row
from leadline.reader.compact import DamagedPartError
from leadline.reader.interval import Sensor
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.names import JOB_ENDED, MODES
from leadline.records.series import TensorInfo

POINTS = 600
T = TypeVar("T")


class Digest:
    """Answers for charts about one run.

    Buckets lie on a fixed grid of widths 1, 2, 3, 4, 6, 8, 12 … steps or seconds, so that they stay what they are
    while one looks nearer or the run grows; a bucket that an interval touches is told whole. Times are ns since the
    epoch. What was compacted is read from there, a few kilobytes a question, and what is newer as it is; the numbers
    are the same.

    Args:
        most_bytes: So much of a stream is read as it is, at most; what is more waits until it was compacted, and
            ``is_preparing`` says so. None: however much it is.
    """

    def __init__(self, run: Run, most_bytes: int | None = None) -> None:
        self.run = run
        self._most_bytes = most_bytes
        self._samples = StoredSamples(run.path)
        self._steps = StoredSteps(run.path)
        self._values = StoredValues(run.path)
        self._answers: dict[Any, tuple[int, Any]] = {}
        self.refresh()

    @property
    def is_preparing(self) -> bool:
        """Whether much of the run waits to be compacted, so that what is told is not all yet."""
        return any(each.is_waiting for streams in self._streams() for each in streams.all.values())

    @property
    def progress(self) -> float | None:
        """How much of the run is told, 0 to 1; None: all of it."""
        if not self.is_preparing:
            return None
        shares = [each.share() for streams in self._streams() for each in streams.all.values()]
        return sum(taken for taken, _ in shares) / max(sum(there for _, there in shares), 1)

    @property
    def version(self) -> int:
        """Another number whenever there is something new; the same answers belong to the same number."""
        return sum(each.version for each in self._streams())

    def refresh(self) -> Digest:
        """Take in what came."""
        for streams in self._streams():
            streams.refresh(self._most_bytes)
        return self

    # --- the run as a whole -------------------------------------------------------------------------------

    def workers(self) -> list[str]:
        """The workers that timed or captured something or spoke of themselves, as people sort them."""
        written = {*self._steps.streams.all, *self._values.streams.all}
        return sorted(written | set(self.run.worker_documents()), key=natural_sort_key)

    @property
    def damage(self) -> list[str]:
        """One line for each part that was asked for and could not be read."""
        return [line for streams in self._streams() for each in streams.all.values() for line in each.damage]

    def span_ns(self) -> tuple[int, int]:
        """The start of the run, and the latest moment known: its end, or the last record."""
        start, status = self.run.manifest.started_ns, self.run.status_document
        if isinstance(ended := status.get("ended_ns"), int):
            return start, max(start, ended)
        told = (self._samples.latest_ns(), self._steps.latest_ns(), self._values.latest_ns())
        return start, max([start, *(each for each in told if each is not None)])

    def job(self) -> JobPhases:
        """The run from its start to its end."""
        ended = self.run.status_document.get("ended_ns") if self.run.status in JOB_ENDED else None
        return job_of(
            self._steps.events(),
            self._steps.span_ns(),
            latest_ns=self._steps.latest_ns(),
            started_ns=self.run.manifest.started_ns,
            ended_ns=ended,
        )

    def events(
        self, worker: str | None = None, start_ns: int | None = None, end_ns: int | None = None, most: int = 1000
    ) -> pa.Table:
        """Rows of the timeline that are no part of a step: imports, set-up, finalization, marks.

        Shape:
            As ``Run.timeline``; the first ``most`` of the interval.
        """
        rows = self._steps.events(worker)
        if start_ns is not None:
            rows = rows.filter(pc.greater_equal(pc.add(rows["start_ns"], rows["duration_ns"]), start_ns))
        if end_ns is not None:
            rows = rows.filter(pc.less(rows["start_ns"], end_ns))
        return rows.slice(0, most)

    def timeline(self, worker: str, start_ns: int, end_ns: int, most_bytes: int = 48 << 20) -> pa.Table:
        """Every row of a worker's timeline that was under way in a short interval, as ``Run.timeline`` has them.

        Args:
            most_bytes: So much of the segments is read, at most; what stands behind is left out.
        """
        return self._steps.rows_between(worker, start_ns, end_ns, most_bytes)

    # --- the machine --------------------------------------------------------------------------------------

    def channels(self) -> list[Sensor]:
        """The sensors there are, as people sort them."""
        return sorted(self._samples.sensors(), key=sensor_order)

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
        """What sensors gave.

        Shape:
            A row a bucket that has samples, sensor by sensor, ascending in time: ``node, kind, device, metric,
            time_ns`` (of the bucket's middle)``, mean, min, max, samples``.
        Args:
            kind, metric, device, node: One name, or several; None: all.
            start_ns, end_ns: ``start_ns <= time < end_ns``, widened to whole buckets.
            points: At most so many buckets a sensor.
        """
        wanted = matching(self.channels(), kind=kind, metric=metric, device=device, node=node)
        if not wanted:
            return SYSTEM_BUCKETS.empty_table()
        width, first, last = digest_system.grid(self.span_ns(), start_ns, end_ns, points)
        low = first if start_ns is not None else None
        sums = self._undamaged(lambda: self._samples.sums(wanted, width, low, last))
        return digest_system.buckets(sums, wanted, width)

    def usage(self, start_ns: int | None = None, end_ns: int | None = None) -> list[dict[str, Any]]:
        """Exact percentiles of the metrics of a summary, as ``analysis.usage.usage`` has them."""
        watched = [each for each in sorted(self._samples.sensors()) if is_watched(*each[1:])]

        def rows() -> list[dict[str, Any]]:
            told = ((each, self._samples.values(each, start_ns, end_ns)) for each in watched)
            return [usage_row(each, values) for each, values in told if len(values)]

        return self._kept(("usage", start_ns, end_ns), rows)

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
        """Steps and their phases.

        Shape:
            A row a bucket, worker by worker and mode by mode: ``worker, mode, step`` (the first)``, end_step, start_ns,
            end_ns, count, duration_ns`` (the sum)``, longest_ns, shortest_ns, longest_step`` and the sum of each part,
            ``data_ns`` …
        """

        def tables() -> pa.Table:
            edges = {
                series: found
                for series in self._steps.series(worker, mode)
                if (found := self._edges(series, start_step, end_step, start_ns, end_ns)) is not None
            }
            if not edges:
                return STEP_BUCKETS.empty_table()
            width = _common_width(list(edges.values()), points)
            told = [
                self._steps.rows(series, width, first // width * width, (last // width + 1) * width)
                for series, (first, last) in edges.items()
            ]
            return pa.concat_tables([each.in_buckets(width).table() for each in told if each]).combine_chunks()

        return self._undamaged(tables)

    def step_durations(
        self, worker: str | None = None, mode: str | None = None, bins: int = 60
    ) -> dict[str, dict[str, Any]]:
        """How long steps took, in seconds, by ``worker/mode``: ``count, mean, min, p50, p95, p99, max, edges, counts``.

        Of edges there is one more than of counts; they are ``bins`` equally wide ones, or equal factors where the
        longest step takes ten times the shortest.
        """
        return {
            f"{series[0]}/{series[1]}": self._kept(
                ("durations", series, bins),
                lambda series=series: distribution(*self._steps.durations(series), bins),  # type: ignore[misc]
            )
            for series in self._steps.series(worker, mode)
        }

    def phases(
        self, start_ns: int | None = None, end_ns: int | None = None, worker: str | None = None, mode: str | None = None
    ) -> dict[str, float]:
        """Seconds by part in an interval, all workers together; of a step that lies half in it, half."""

        def sums() -> Any:
            told = [self._steps.parts_in(each, start_ns, end_ns) for each in self._steps.series(worker, mode)]
            return np.sum(told, axis=0) if told else np.zeros(len(PARTS))

        found = self._undamaged(sums)
        return {name: float(each) / 1e9 for name, each in zip(PARTS, found, strict=True) if each > 0}

    def _edges(
        self, series: Series, start_step: int | None, end_step: int | None, start_ns: int | None, end_ns: int | None
    ) -> tuple[int, int] | None:
        """The first and the last step of a series that are asked for; None: there is none."""
        found: tuple[int, int] | None = self._steps.bounds(series)
        if start_ns is not None or end_ns is not None:
            found = self._steps.between(series, start_ns, end_ns)
        return _clipped(found, start_step, end_step) if found is not None else None

    # --- series -------------------------------------------------------------------------------------------

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of each tensor of which a number was captured, in the order in which they appeared."""
        return self._values.infos()

    def captured(self) -> dict[str, dict[str, set[str]]]:
        """The workers that have a statistic, by tensor and statistic."""
        return self._values.captured()

    def scalar_names(self) -> list[tuple[str, str]]:
        """Names and modes of single numbers: losses, then metrics, then the others."""
        infos, modes = self._values.infos(), self._values.modes_of("value")
        places = {name: place for place, name in enumerate(infos)}
        ordered = sorted(modes, key=lambda name: (scalar_order(infos[name]), places[name]))
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
        """A loss, a metric or another single number over steps.

        Shape:
            A row a bucket, worker by worker and mode by mode: ``name, mode, worker, step, mode_step, time_ns, value``
            (all four at the bucket's last finite value)``, min, max`` (of the finite ones)``, nonfinite, samples``.
        Not a number:
            Counted in ``nonfinite``; ``value``, ``min`` and ``max`` are NaN only where no value is finite.
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
        """One statistic of one tensor over steps; the columns are those of ``scalar``."""

        def tables() -> pa.Table:
            edges = {}
            for of_worker, of_mode in self._values.series(tensor, statistic, mode, worker):
                told = self._values.bounds(tensor, statistic, of_mode, of_worker)
                if (found := _clipped(told, start_step, end_step)) is not None:
                    edges[of_worker, of_mode] = found
            if not edges:
                return SCALAR_BUCKETS.empty_table()
            width = _common_width(list(edges.values()), points)
            told_values = [
                self._values.values(
                    [tensor], statistic, of_mode, of_worker, width, first // width * width, (last // width + 1) * width
                )
                for (of_worker, of_mode), (first, last) in edges.items()
            ]
            rows = [each[tensor].in_buckets(width).table(tensor) for each in told_values if each]
            return pa.concat_tables([SCALAR_BUCKETS.empty_table(), *rows]).combine_chunks()

        return self._undamaged(tables)

    def layers(
        self, collection: str, statistic: str, mode: str = "train", worker: str | None = None, points: int = 200
    ) -> dict[str, Any]:
        """One statistic of the tensors of a collection, in the order of the model.

        Args:
            worker: None: the first that has it.
        Returns:
            ``tensors``, ``steps`` (where each bucket begins) and ``values``, an array tensors x steps; NaN: absent.
        """
        infos = self._values.infos()
        names = [name for name, info in infos.items() if collection in ("all", *info.collections)]
        return self._undamaged(lambda: matrix(self._of(names, statistic, mode, worker, points), points))

    def _of(self, tensors: list[str], statistic: str, mode: str, worker: str | None, points: int) -> dict[str, Values]:
        workers = {
            name: min((each for each, _ in found), key=natural_sort_key)
            for name in tensors
            if (found := self._values.series(name, statistic, mode, worker))
        }
        if not workers:
            return {}
        bounds = [self._values.bounds(name, statistic, mode, each) for name, each in workers.items()]
        width = _common_width([(min(each[0] for each in bounds), max(each[1] for each in bounds))], points)
        told: dict[str, Values] = {}
        for each in dict.fromkeys(workers.values()):
            mine = [name for name, of_worker in workers.items() if of_worker == each]
            told |= self._values.values(mine, statistic, mode, each, width)
        return {name: told[name] for name in tensors if name in told}

    # --- what was read ------------------------------------------------------------------------------------

    def _streams(self) -> tuple[Streams, ...]:
        return self._samples.streams, self._steps.streams, self._values.streams

    def _undamaged(self, ask: Callable[[], T]) -> T:
        """An answer; where a derived file turns out to be damaged, without it."""
        while True:
            try:
                return ask()
            except DamagedPartError as error:
                if not self._forget(str(error)):
                    raise

    def _forget(self, path: str) -> bool:
        """Do without a derived file; whether it was one that counted."""
        found = [
            each
            for streams in self._streams()
            for each in streams.all.values()
            if any(part.path == path for part in each.parts)
        ]
        for each in found:
            each.forget(path)
            each.refresh(self._most_bytes)
        return bool(found)

    def _kept(self, key: Any, ask: Callable[[], T]) -> T:
        """An answer that is dear, kept for as long as nothing new came."""
        known = self._answers.get(key)
        if known is None or known[0] != self.version:
            known = self._answers[key] = (self.version, self._undamaged(ask))
            while len(self._answers) > _MOST_KEPT:
                self._answers.pop(next(iter(self._answers)))
        return known[1]


_MOST_KEPT = 64


def _clipped(edges: tuple[int, int], start_step: int | None, end_step: int | None) -> tuple[int, int] | None:
    first = edges[0] if start_step is None else max(edges[0], start_step)
    last = edges[1] if end_step is None else min(edges[1], end_step - 1)
    return (first, last) if first <= last else None


def _common_width(edges: list[tuple[int, int]], points: int) -> int:
    return width_of(max(last for _, last in edges) - min(first for first, _ in edges) + 1, points)
