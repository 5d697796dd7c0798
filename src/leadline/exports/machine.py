"""Export of system metrics as counters of a trace."""

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

MAX_SAMPLES: Final = 10_000
"""Maximum number of samples of one counter; more are reduced to the minimum and maximum of half as many intervals."""


@dataclass(slots=True)
class Downsampled:
    """Counts of the samples before and after downsampling."""

    samples: int = 0
    written: int = 0
    counters: int = 0
    """Number of downsampled counters."""

    def metadata(self) -> dict[str, Any]:
        """Return the counts for the metadata of a trace."""
        counts: dict[str, Any] = {"samples": self.samples, "written": self.written}
        if self.counters:
            counts["thinned"] = (
                f"{self.counters} counters have more than {MAX_SAMPLES:,} samples and were downsampled to the minimum "
                f"and maximum of {MAX_SAMPLES // 2:,} equal intervals; use --from and --until for full resolution"
            )
        return counts


def write_machine(trace: Trace, run: Run, span: Span) -> Downsampled:
    """Write one process for each node with one counter for each channel."""
    downsampled = Downsampled()
    table = run.system_metrics(start_ns=span.start_ns, end_ns=span.end_ns)
    keys = ["node", "kind", "device", "metric"]
    channels = table.group_by(keys).aggregate([]).sort_by([(key, "ascending") for key in keys]).to_pylist()
    pids: dict[str, int] = {}
    for channel in channels:
        node = channel["node"]
        if node not in pids:
            pids[node] = trace.process(f"node {node}")
        matches = pc.and_(
            pc.and_(pc.equal(table["node"], node), pc.equal(table["kind"], channel["kind"])),
            pc.and_(pc.equal(table["device"], channel["device"]), pc.equal(table["metric"], channel["metric"])),
        )
        samples = table.filter(matches)
        name = f"{channel['kind']} {channel['device']} {channel['metric']}"
        _put(trace, pids[node], name, samples["time_ns"].to_numpy(), samples["value"].to_numpy(), downsampled)
    return downsampled


def _put(
    trace: Trace,
    pid: int,
    name: str,
    times: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    downsampled: Downsampled,
) -> None:
    is_number = np.isfinite(values)
    times, values = times[is_number], values[is_number]
    indices = downsample(times, values)
    downsampled.samples += len(times)
    downsampled.written += len(indices)
    downsampled.counters += len(indices) < len(times)
    for index in indices.tolist():
        trace.sample(pid, name, int(times[index]), float(values[index]))


def downsample(
    times: npt.NDArray[np.int64], values: npt.NDArray[np.float64], max_samples: int = MAX_SAMPLES
) -> npt.NDArray[np.int64]:
    """Return the indices of the samples to write: all, or minimum and maximum of equal intervals, which keeps peaks.

    Shape:
        ``(samples,)`` to ``(<= max_samples,)``, ascending; the times ascend.
    """
    if len(times) <= max_samples:
        return np.arange(len(times))
    edges = np.linspace(times[0], times[-1], max_samples // 2 + 1)[1:-1]
    starts = np.unique(np.concatenate([[0], np.searchsorted(times, edges)]))
    starts = starts[starts < len(times)]
    parts = [range(start, end) for start, end in zip(starts, [*starts[1:], len(times)], strict=True)]
    indices = [
        part[0] + np.asarray(extremes) for part in parts for extremes in (_extremes(values[part[0] : part[-1] + 1]),)
    ]
    return np.unique(np.concatenate(indices))


def _extremes(values: npt.NDArray[np.float64]) -> tuple[int, int]:
    return int(np.argmin(values)), int(np.argmax(values))
