"""The nodes' metrics as counters of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.exports.span import Span
from leadline.exports.trace import Trace

if TYPE_CHECKING:
    from leadline.reader.run import Run

MOST_SAMPLES: Final = 10_000
"""Of one counter; more are thinned to the least and the greatest of each of half as many intervals."""


@dataclass(slots=True)
class Downsampled:
    """What was left out of the counters."""

    samples: int = 0
    written: int = 0
    counters: int = 0
    """Those that were thinned."""

    def spoken(self) -> dict[str, Any]:
        """For the trace's own words."""
        found: dict[str, Any] = {"samples": self.samples, "written": self.written}
        if self.counters:
            found["thinned"] = (
                f"{self.counters} counters had more than {MOST_SAMPLES:,} samples; of each of {MOST_SAMPLES // 2:,} "
                "equal intervals the least and the greatest were written; --from and --until give all of a part"
            )
        return found


def put_machine(trace: Trace, run: Run, span: Span) -> Downsampled:
    """Write a process for each node, with a counter for each channel."""
    thinned = Downsampled()
    table = run.system_metrics(start_ns=span.start_ns, end_ns=span.end_ns)
    keys = ["node", "kind", "device", "metric"]
    channels = table.group_by(keys).aggregate([]).sort_by([(each, "ascending") for each in keys]).to_pylist()
    pids: dict[str, int] = {}
    for channel in channels:
        node = channel["node"]
        if node not in pids:
            pids[node] = trace.process(f"node {node}")
        wanted = pc.and_(
            pc.and_(pc.equal(table["node"], node), pc.equal(table["kind"], channel["kind"])),
            pc.and_(pc.equal(table["device"], channel["device"]), pc.equal(table["metric"], channel["metric"])),
        )
        found = table.filter(wanted)
        name = f"{channel['kind']} {channel['device']} {channel['metric']}"
        _put(trace, pids[node], name, found["time_ns"].to_numpy(), found["value"].to_numpy(), thinned)
    return thinned


def _put(
    trace: Trace,
    pid: int,
    name: str,
    times: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    thinned: Downsampled,
) -> None:
    is_number = np.isfinite(values)
    times, values = times[is_number], values[is_number]
    places = downsample(times, values)
    thinned.samples += len(times)
    thinned.written += len(places)
    thinned.counters += len(places) < len(times)
    for place in places.tolist():
        trace.sample(pid, name, int(times[place]), float(values[place]))


def downsample(
    times: npt.NDArray[np.int64], values: npt.NDArray[np.float64], most: int = MOST_SAMPLES
) -> npt.NDArray[np.int64]:
    """Which samples are written: all, or of each of so many intervals the least and the greatest, so that peaks stay.

    Shape:
        ``(samples,)`` to ``(<= most,)``, ascending; the times ascend.
    """
    if len(times) <= most:
        return np.arange(len(times))
    edges = np.linspace(times[0], times[-1], most // 2 + 1)[1:-1]
    starts = np.unique(np.concatenate([[0], np.searchsorted(times, edges)]))
    starts = starts[starts < len(times)]
    parts = [range(start, end) for start, end in zip(starts, [*starts[1:], len(times)], strict=True)]
    found = [part[0] + np.asarray(each) for part in parts for each in (_extremes(values[part[0] : part[-1] + 1]),)]
    return np.unique(np.concatenate(found))


def _extremes(values: npt.NDArray[np.float64]) -> tuple[int, int]:
    return int(np.argmin(values)), int(np.argmax(values))
