"""Charts of the catalog, and the view of a run that they draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, update_wrapper
from inspect import Parameter, signature
from typing import Any, Concatenate, Final, Generic, ParamSpec

import plotly.graph_objects as go
import pyarrow as pa

from leadline.analysis.bucketed_time import points_for
from leadline.analysis.digest import POINTS, Digest
from leadline.charts import marks
from leadline.exports.span import Span, parse_span, train_steps
from leadline.reader.run import Run

Names = str | Sequence[str] | None
"""One or several names; None: all."""
Moment = int | str | None
"""A train step (``120``), or a time since the start of the run (``"90s"``, ``"5min"``); None: unbounded."""
_MAX_DIGESTS: Final = 4
"""Number of runs whose data is cached between the charts of a notebook."""
Parameters = ParamSpec("Parameters")


@dataclass(frozen=True, slots=True)
class ChartView:
    """A digest, and the range and resolution at which charts show it.

    Units:
        Times in ns since the epoch; ranges are half-open, None means unbounded.
    """

    digest: Digest
    start_ns: int | None = None
    end_ns: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    points: int = POINTS
    """Maximum number of points of a series."""

    @property
    def run(self) -> Run:
        """The run."""
        return self.digest.run

    def between(self, start: Moment, end: Moment) -> ChartView:
        """Return the view of an interval; the view itself if no bound is given."""
        if start is None and end is None:
            return self
        span = parse_interval(self.run, start, end)
        return replace(self, start_ns=span.start_ns, end_ns=span.end_ns)

    def at_most(self, points: int) -> ChartView:
        """Return the view with a limited number of points."""
        return replace(self, points=min(self.points, points))

    def system(self, kind: Names, metric: Names, device: Names = None, node: str | None = None) -> pa.Table:
        """Return system metrics, as ``Digest.system``."""
        return self.digest.system(kind, metric, device, node, self.start_ns, self.end_ns, self.points)

    def steps(self, worker: str | None = None, mode: str | None = None) -> pa.Table:
        """Return steps, as ``Digest.steps``."""
        points = self._points(worker)
        return self.digest.steps(worker, mode, self.start_step, self.end_step, self.start_ns, self.end_ns, points)

    def statistic(
        self, tensor: str, statistic: str = "value", mode: str | None = None, worker: str | None = None
    ) -> pa.Table:
        """Return one statistic of one tensor over steps, as ``Digest.statistic``."""
        points = self._points(worker)
        return self.digest.statistic(tensor, statistic, mode, worker, self.start_step, self.end_step, points)

    def _points(self, worker: str | None) -> int:
        """Return the number of points of a worker, or of each; fewer if there are very many workers."""
        return min(self.points, points_for(1 if worker else len(self.digest.workers())))


Source = Run | Digest | ChartView
"""What a chart draws: a run, its digest, or a view of it."""


Sources = Source | Sequence[Source]
"""One or several runs."""


class CatalogChart(Generic[Parameters]):
    """An entry of the catalog: a function that queries a view of a run and draws the result, with marks.

    Marked are interruptions, and where trainings begin.

    Used as a decorator. The chart takes a run, a digest or a view, then the parameters of the function.
    """

    def __init__(self, draw: Callable[Concatenate[ChartView, Parameters], go.Figure]) -> None:
        self._draw = draw
        update_wrapper(self, draw)

    def __call__(self, run: Source, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> go.Figure:
        view = view_of(run)
        fig = marks.mark_interruptions(self._draw(view, *args, **kwargs), view.run.interruptions())
        return marks.mark_trainings(fig, view.run.trainings())

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters after the run, with their types as annotations."""
        _, *parameters = signature(self._draw, eval_str=True).parameters.values()
        return {parameter.name: parameter for parameter in parameters}


def view_of(run: Source) -> ChartView:
    """Return the view of a whole run, with its cached digest refreshed; a view is returned as it is."""
    if isinstance(run, ChartView):
        return run
    return ChartView(run if isinstance(run, Digest) else _cached_digest(run).refresh())


@lru_cache(maxsize=_MAX_DIGESTS)
def _cached_digest(run: Run) -> Digest:
    return Digest(run)


def parse_interval(run: Run, start: Moment, end: Moment, worker: str | None = None) -> Span:
    """Parse bounds; train steps are those of a worker, or of the first that starts the step."""
    if start is None and end is None:
        return Span()
    bounds: list[Any] = [None if bound is None else str(bound) for bound in (start, end)]
    started_ns = run.manifest.started_ns
    return parse_span(*bounds, timeline=train_steps(run, worker), started_ns=started_ns, names=("start", "end"))
