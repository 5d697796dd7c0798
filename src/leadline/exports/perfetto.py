"""A run as one trace that Perfetto opens: workers, nodes, windows of depth, findings, the job's status."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow.compute as pc

from leadline.exports.machine import put_machine
from leadline.exports.span import Span
from leadline.exports.trace import Trace, TraceSpan
from leadline.exports.training import put_workers, rows_of
from leadline.records.names import JOB_ENDED
from leadline.records.version import __version__
from leadline.store.documents import PRIVATE_FILE

if TYPE_CHECKING:
    from leadline.reader.run import Run


@dataclass(frozen=True, slots=True)
class Exported:
    """What a trace holds."""

    slices: int
    samples: int
    findings: int
    lost: tuple[str, ...]
    """A line for each profiling window that could not be read."""
    thinned: str
    """What was left out of the counters; empty: nothing."""


def export_trace(run: Run, path: str, span: Span) -> Exported:
    """Write a run, or a part of it, as a trace in the Chrome trace format.

    Args:
        path: Where to; compressed where it ends in ``.gz``. Nothing is there until it is whole.
    Raises:
        OSError: It could not be written.
    """
    origin_ns = origin_of(run)
    with opened(path) as file:
        trace = Trace(file, origin_ns)
        findings = _put_job(trace, run, span)
        lost = put_workers(trace, run, span)
        machine = put_machine(trace, run, span).spoken()
        trace.close({**_about(run, origin_ns, span), "system_metrics": machine, "left_out": lost})
    return Exported(trace.slices, trace.samples, findings, tuple(lost), machine.get("thinned", ""))


def origin_of(run: Run) -> int:
    """The run's start, or the earliest that is known of it: a process may have been there before it was watched."""
    first = pc.min(run.timeline()["start_ns"]).as_py()
    return run.manifest.started_ns if first is None else min(run.manifest.started_ns, first)


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """A private text file that takes its name once it is whole.

    Raises:
        OSError: It could not be written; nothing is left.
    """
    temporary = f"{path}.{os.getpid()}.part"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if path.endswith(".gz"):
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw) as packed, _text(packed) as file:
                    yield file
            else:
                with _text(raw) as file:
                    yield file
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _text(file: Any) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(file, 1 << 18), "utf-8")


def _about(run: Run, origin_ns: int, span: Span) -> dict[str, Any]:
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
    """Write the job's status and the findings; how many these are."""
    pid = trace.process(f"run {run.name}", "status and findings")
    transitions = run.status_document.get("transitions", [])
    for each, after in zip(transitions, [*transitions[1:], None], strict=True):
        _put_status(trace, pid, each, after, span)
    findings = 0
    for row in rows_of(run.findings()):
        if span.holds(row["time_ns"]):
            args = {
                key: row[key] for key in ("rule", "message", "suggestion", "step", "last_step", "worker", "tensors")
            }
            trace.mark(pid, "findings", row["rule"], row["time_ns"], args, is_global=True)
            findings += 1
    return findings


def _put_status(trace: Trace, pid: int, each: dict[str, Any], after: dict[str, Any] | None, span: Span) -> None:
    start_ns = each["time_ns"]
    if after is not None:
        slices = [TraceSpan(each["status"], start_ns, max(0, after["time_ns"] - start_ns), {}, "status")]
        trace.put(pid, "job", slices if span.meets(start_ns, after["time_ns"]) else ())
    elif span.holds(start_ns):
        trace.mark(pid, "job", each["status"], start_ns, {"is_over": each["status"] in JOB_ENDED})
