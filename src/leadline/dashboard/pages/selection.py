"""What ran in an interval that was chosen on a chart, and where the run has come to by now."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline.analysis.digest import Digest
from leadline.dashboard.charts import Chart, Question, read_question
from leadline.dashboard.page import opened
from leadline.dashboard.phase_labels import phase_words
from leadline.figures import theme
from leadline.reader.run import Run
from leadline.records.formatting import counted, duration, listed, share

_MOST_ROWS: Final = 12
_MOST_ENTRIES: Final = 20
_FINE: Final = 4000
"""Steps of so many buckets are counted exactly, in all usual intervals."""
_NO_STORE: Final = {"Cache-Control": "no-store"}


def span(request: Request) -> Response:
    """``/runs/{run}/span.json``: its start, and the latest moment known."""
    found = opened(request)
    with found.lock:
        start, end = found.digest.span_ns()
        status = found.run.status
    return JSONResponse({"start_ns": start, "end_ns": end, "status": status}, headers=_NO_STORE)


def selection(request: Request) -> Response:
    """``/runs/{run}/selection.json?start_ns=…&end_ns=…``: phases, operators, findings and events of an interval."""
    question = read_question(request.query_params)
    if question.start_ns is None or question.end_ns is None or question.start_ns >= question.end_ns:
        raise HTTPException(400, "an interval has a start_ns and a later end_ns")
    found = opened(request)
    with found.lock:
        said = _selected(found.run, found.digest, question, request.path_params["run"])
    return JSONResponse(said, headers=_NO_STORE)


def _selected(run: Run, digest: Digest, question: Question, name: str) -> dict[str, Any]:
    start, end = question.start_ns or 0, question.end_ns or 0
    return {
        "start_ns": start,
        "end_ns": end,
        "phases": _phases(digest.phases(start, end)),
        "steps": _steps(digest.steps(start_ns=start, end_ns=end, points=_FINE)),
        "operators": _operators(run, start, end),
        "findings": _findings(run, start, end, name),
        "events": _events(digest, start, end),
    }


def _phases(seconds: dict[str, float]) -> list[dict[str, Any]]:
    """The phases of training and other steps, the longest first."""
    whole = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda each: -each[1])
    return [
        {
            "phase": phase,
            "words": phase_words(phase),
            "seconds": each,
            "time": duration(each),
            "share": each / whole,
            "percent": share(each / whole),
            "colour": theme.phase_colour(phase),
        }
        for phase, each in ordered
    ]


def _steps(table: pa.Table) -> str:
    """How many steps ran, and how long they took."""
    if not table.num_rows:
        return "no step ran in it"
    modes = {"train": "training step", "eval": "evaluation step", "predict": "prediction step"}
    told = []
    for mode in pc.unique(table["mode"]).to_pylist():
        rows = table.filter(pc.equal(table["mode"], mode))
        count, longest = int(pc.sum(rows["count"]).as_py()), int(pc.max(rows["longest_ns"]).as_py())
        mean = pc.sum(rows["duration_ns"]).as_py() / max(count, 1)
        told.append(
            f"{counted(count, modes.get(mode, f'step of {mode}'))} ({_brief(mean)} each, longest {_brief(longest)})"
        )
    workers = len(pc.unique(table["worker"]))
    return listed(told) + (f", of {workers:,} workers together" if workers > 1 else "")


def _brief(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3g} ms" if nanoseconds < 1e9 else duration(nanoseconds / 1e9)


def _operators(run: Run, start: int, end: int) -> dict[str, Any] | None:
    """The dearest operators of the detailed windows that lie in it; None: there is none."""
    windows = run.profiles()
    is_in = pc.and_(pc.less(windows["start_ns"], end), pc.greater(windows["end_ns"], start))
    windows = windows.filter(pc.and_(is_in, pc.equal(windows["kind"], "detailed")))
    if not windows.num_rows:
        return None
    tables = [run.operator_calls(window=each) for each in pc.unique(windows["id"]).to_pylist()]
    calls = pa.concat_tables(tables)
    calls = calls.filter(pc.and_(pc.less(calls["start_ns"], end), pc.greater_equal(calls["start_ns"], start)))
    found = calls.group_by(["operator", "phase"]).aggregate([("own_ns", "sum"), ("own_ns", "count")])
    rows = found.sort_by([("own_ns_sum", "descending")]).slice(0, _MOST_ROWS).to_pylist()
    names = listed([f"{each:,}" for each in pc.unique(windows["first_step"]).to_pylist()])
    return {
        "note": f"{counted(calls.num_rows, 'call')} in the detailed window from step {names}; own time",
        "rows": [
            {
                "operator": each["operator"],
                "phase": phase_words(each["phase"]),
                "time": _brief(each["own_ns_sum"]),
                "calls": f"{each['own_ns_count']:,}",
            }
            for each in rows
        ],
    }


def _findings(run: Run, start: int, end: int, name: str) -> list[dict[str, str]]:
    table = run.findings()
    table = table.filter(pc.and_(pc.greater_equal(table["time_ns"], start), pc.less(table["time_ns"], end)))
    return [
        {
            "words": f"{each['rule']}, step {each['step']:,}: {each['message']}",
            "href": f"/runs/{quote(name, safe='')}/overview#rule-{quote(each['rule'], safe='')}",
        }
        for each in table.slice(0, _MOST_ENTRIES).to_pylist()
    ]


def _events(digest: Digest, start: int, end: int) -> list[dict[str, str]]:
    """What is no part of a step: set-up, checkpoints between steps, what was thinned."""
    rows = digest.events(start_ns=start, end_ns=end, most=200).to_pylist()
    words = [_event(each) for each in rows]
    return [{"words": each} for each in list(dict.fromkeys(words))[:_MOST_ENTRIES]]


def _event(row: dict[str, Any]) -> str:
    lasted = f" ({_brief(row['duration_ns'])})" if row["duration_ns"] else ""
    return f"{phase_words(row['name'])}{lasted}, {row['worker']}"


ROUTES: Final = [Route("/runs/{run}/span.json", span), Route("/runs/{run}/selection.json", selection)]
CHARTS: Final[dict[str, Chart]] = {}
