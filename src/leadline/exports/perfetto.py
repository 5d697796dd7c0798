"""Export of a run as a Perfetto trace: workers, nodes with their metrics, profile windows, findings and status."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NotRequired, TextIO, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.exports.span import Span
from leadline.exports.trace import Trace, TraceSpan
from leadline.exports.training import rows_of, write_workers
from leadline.records.documents import Transition
from leadline.records.names import JOB_ENDED
from leadline.records.version import __version__
from leadline.store.documents import replace_file

if TYPE_CHECKING:
    from leadline.reader.run import Run

MAX_SAMPLES: Final = 10_000
"""Maximum number of samples of one counter; more are reduced to the minimum and maximum of half as many intervals."""


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The content of a written trace."""

    slices: int
    samples: int
    findings: int
    lost: tuple[str, ...]
    """One line for each profile window that could not be read."""
    downsampled: str
    """A line about downsampled counters; empty if there are none."""


def export_trace(run: Run, path: str, span: Span) -> ExportedTrace:
    """Write a run, or a part of it, as a trace in the Chrome trace format.

    Args:
        path: The output file; compressed if it ends in ``.gz``. It appears only when it is complete.
    Raises:
        OSError: It could not be written.
    """
    origin_ns = origin_of(run)
    with atomic_text_file(path) as file:
        trace = Trace(file, origin_ns)
        findings = _put_job(trace, run, span)
        lost = write_workers(trace, run, span)
        machine = write_machine(trace, run, span).metadata()
        trace.close({**_about(run, origin_ns, span), "system_metrics": machine, "left_out": lost})
    return ExportedTrace(trace.slices, trace.samples, findings, tuple(lost), machine.get("downsampled", ""))


def origin_of(run: Run) -> int:
    """Return the start of the run, or of its earliest event: a process may be older than the run."""
    first = pc.min(run.timeline()["start_ns"]).as_py()
    return run.manifest.started_ns if first is None else min(run.manifest.started_ns, first)


@contextmanager
def atomic_text_file(path: str) -> Iterator[TextIO]:
    """Open a private text file that gets its final name when it is complete.

    Raises:
        OSError: It could not be written; no file is left behind.
    """
    with replace_file(path) as raw:
        if path.endswith(".gz"):
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw) as compressed, _text(compressed) as file:
                yield file
        else:
            with _text(raw) as file:
                yield file


def _text(file: Any) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(file, 1 << 18), "utf-8")


def _about(run: Run, origin_ns: int, span: Span) -> dict[str, object]:
    return {
        "leadline": __version__,
        "run": run.name,
        "status": run.status,
        "clock": "wall clock; ts is µs since origin_ns",
        "origin": datetime.fromtimestamp(origin_ns / 1e9, tz=UTC).isoformat(),
        "origin_ns": str(origin_ns),
        "started_ns": str(run.manifest.started_ns),
        "from_us": None if span.start_ns is None else (span.start_ns - origin_ns) / 1000,
        "until_us": None if span.end_ns is None else (span.end_ns - origin_ns) / 1000,
    }


def _put_job(trace: Trace, run: Run, span: Span) -> int:
    """Write the job's status and the findings; return the number of findings."""
    pid = trace.process(f"run {run.name}", "status and findings")
    transitions = run.status_document.transitions
    for transition, following in zip(transitions, [*transitions[1:], None], strict=True):
        _put_status(trace, pid, transition, following, span)
    findings = 0
    for row in rows_of(run.findings()):
        if span.contains(row["time_ns"]):
            args = {key: row[key] for key in ("rule", "message", "suggestion", "step", "last_step", "worker")}
            trace.mark(pid, "findings", row["rule"], row["time_ns"], args, is_global=True)
            findings += 1
    return findings


def _put_status(trace: Trace, pid: int, transition: Transition, following: Transition | None, span: Span) -> None:
    start_ns, status = transition.time_ns, transition.status
    if following is not None:
        slices = [TraceSpan(status, start_ns, max(0, following.time_ns - start_ns), {}, "status")]
        trace.put(pid, "job", slices if span.overlaps(start_ns, following.time_ns) else ())
    elif span.contains(start_ns):
        trace.mark(pid, "job", status, start_ns, {"is_over": status in JOB_ENDED})


class SampledMetrics(TypedDict):
    """The system metrics in the metadata of a trace."""

    samples: int
    written: int
    downsampled: NotRequired[str]


@dataclass(slots=True)
class Downsampled:
    """Counts of the samples before and after downsampling."""

    samples: int = 0
    written: int = 0
    counters: int = 0
    """Number of downsampled counters."""

    def metadata(self) -> SampledMetrics:
        """Return the counts for the metadata of a trace."""
        counts: SampledMetrics = {"samples": self.samples, "written": self.written}
        if self.counters:
            counts["downsampled"] = (
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
