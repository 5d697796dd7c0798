"""Time span of a run, and the breakdown of an interval selected on a chart."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leadline.analysis.digest import Digest
from leadline.charts import theme
from leadline.dashboard.chart_endpoint import read_range
from leadline.dashboard.page import open_run, render
from leadline.reader.run import Run
from leadline.reader.table_rows import TableRow
from leadline.records.formatting import counted, duration, latency, listed, phase_label, share

_MAX_ROWS: Final = 12
_MAX_ENTRIES: Final = 20
_MAX_BUCKETS: Final = 4000
"""Enough buckets to count the steps of usual intervals exactly."""
_NO_STORE: Final = {"Cache-Control": "no-store"}


def span(request: Request) -> Response:
    """Serve ``/runs/{run}/span.json``: the start and the latest recorded time of a run."""
    opened = open_run(request)
    with opened.lock:
        start, end = opened.digest.span_ns()
        status = opened.run.status
    return JSONResponse({"start_ns": start, "end_ns": end, "status": status}, headers=_NO_STORE)


def selection(request: Request) -> Response:
    """Serve ``/runs/{run}/selection?start_ns=…&end_ns=…``: the breakdown of an interval."""
    bounds = read_range(request.query_params)
    start, end = bounds.get("start_ns"), bounds.get("end_ns")
    if start is None or end is None or start >= end:
        raise HTTPException(400, "start_ns and a later end_ns are required")
    opened = open_run(request)
    with opened.lock:
        context = breakdown(opened.run, opened.digest, start, end, request.path_params["run"])
    return render(request, "selection.html", context)


def breakdown(run: Run, digest: Digest, start: int, end: int, name: str) -> dict[str, object]:
    """Return the phases, steps, operators, findings and events of an interval of a run.

    Args:
        start, end: Bounds, ns since the epoch.
        name: Run name, for links.
    """
    return {
        "phases": _phases(digest.phases(start, end)),
        "steps": _steps(digest.steps(start_ns=start, end_ns=end, points=_MAX_BUCKETS)),
        "operators": _operators(run, start, end),
        "findings": _findings(run, start, end, name),
        "events": _events(digest, start, end),
    }


def _phases(seconds: dict[str, float]) -> list[dict[str, object]]:
    """Return the phases of all steps, the longest first."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return [
        {
            "label": phase_label(phase),
            "time": duration(phase_seconds),
            "share": phase_seconds / total,
            "percent": share(phase_seconds / total),
            "colour": theme.phase_colour(phase),
        }
        for phase, phase_seconds in ordered
    ]


def _steps(table: pa.Table) -> str:
    """Describe the number and duration of the steps."""
    if not table.num_rows:
        return "no step ran in this interval"
    modes = {"train": "training step", "eval": "evaluation step", "predict": "prediction step"}
    parts = []
    for mode in pc.unique(table["mode"]).to_pylist():
        rows = table.filter(pc.equal(table["mode"], mode))
        count, longest = int(pc.sum(rows["count"]).as_py()), int(pc.max(rows["longest_ns"]).as_py())
        mean = pc.sum(rows["duration_ns"]).as_py() / max(count, 1)
        timing = f"mean {_format_duration(mean)}, longest {_format_duration(longest)}"
        parts.append(f"{counted(count, modes.get(mode, f'{mode} step'))} ({timing})")
    workers = len(pc.unique(table["worker"]))
    return listed(parts) + (f", over {workers:,} workers" if workers > 1 else "")


def _format_duration(nanoseconds: float) -> str:
    return latency(nanoseconds / 1e9)


def _operators(run: Run, start: int, end: int) -> dict[str, object] | None:
    """Return the top operators of the detailed profile windows in an interval; None: there are none."""
    windows = run.profiles()
    overlaps = pc.and_(pc.less(windows["start_ns"], end), pc.greater(windows["end_ns"], start))
    windows = windows.filter(pc.and_(overlaps, pc.equal(windows["kind"], "detailed")))
    if not windows.num_rows:
        return None
    tables = [run.operator_calls(window=window) for window in pc.unique(windows["id"]).to_pylist()]
    calls = pa.concat_tables(tables)
    calls = calls.filter(pc.and_(pc.less(calls["start_ns"], end), pc.greater_equal(calls["start_ns"], start)))
    totals = calls.group_by(["operator", "phase"]).aggregate([("own_ns", "sum"), ("own_ns", "count")])
    rows = totals.sort_by([("own_ns_sum", "descending")]).slice(0, _MAX_ROWS).to_pylist()
    first_steps = listed([f"{step:,}" for step in pc.unique(windows["first_step"]).to_pylist()])
    return {
        "note": f"{counted(calls.num_rows, 'call')} in the profile window from step {first_steps}; own time",
        "rows": [
            {
                "operator": row["operator"],
                "phase": phase_label(row["phase"]),
                "time": _format_duration(row["own_ns_sum"]),
                "calls": f"{row['own_ns_count']:,}",
            }
            for row in rows
        ],
    }


def _findings(run: Run, start: int, end: int, name: str) -> list[dict[str, str]]:
    table = run.findings()
    table = table.filter(pc.and_(pc.greater_equal(table["time_ns"], start), pc.less(table["time_ns"], end)))
    return [
        {
            "label": f"{finding['rule']}, step {finding['step']:,}: {finding['message']}",
            "href": f"/runs/{quote(name, safe='')}/overview#rule-{quote(finding['rule'], safe='')}",
        }
        for finding in table.slice(0, _MAX_ENTRIES).to_pylist()
    ]


def _events(digest: Digest, start: int, end: int) -> list[dict[str, str]]:
    """Describe events outside steps: setup, checkpoints, throttling."""
    rows = digest.events(start_ns=start, end_ns=end, limit=200).to_pylist()
    descriptions = [_describe_event(row) for row in rows]
    return [{"label": text} for text in list(dict.fromkeys(descriptions))[:_MAX_ENTRIES]]


def _describe_event(row: TableRow) -> str:
    duration_text = f" ({_format_duration(row['duration_ns'])})" if row["duration_ns"] else ""
    return f"{phase_label(row['name'])}{duration_text}, {row['worker']}"
