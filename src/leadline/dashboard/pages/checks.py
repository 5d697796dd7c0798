"""Checks page of a run: what the probes have found on a copy of the training."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from leadline.charts.check_charts import has_picture
from leadline.dashboard.page import open_run, render
from leadline.reader.checks import read_checks
from leadline.records.check_result import PROBES, CheckResult


@dataclass(frozen=True, slots=True)
class ProbeView:
    """A probe of a worker."""

    title: str
    """What it tests."""
    result: CheckResult
    has_picture: bool


def checks(request: Request) -> Response:
    """Serve ``/runs/{run}/checks``."""
    opened = open_run(request)
    with opened.lock:
        found = read_checks(opened.run.path)
    worker = request.query_params.get("worker")
    worker = worker if worker in found else next(iter(found), "")
    results = found.get(worker, [])
    views = [ProbeView(PROBES[result.probe], result, has_picture(result.evidence)) for result in results]
    context = {
        "workers": list(found),
        "worker": worker,
        "failed": [view for view in views if view.result.outcome == "failed"],
        "passed": [view for view in views if view.result.outcome == "passed"],
        "not_applicable": [view for view in views if view.result.outcome == "not applicable"],
    }
    return render(request, "checks.html", context, page="checks")
