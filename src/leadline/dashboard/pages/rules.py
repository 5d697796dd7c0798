"""Rules page of a run: every rule, its findings and documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from leadline.dashboard.page import open_run, render
from leadline.dashboard.query import parse_integer
from leadline.dashboard.rule_view import VERDICTS, FindingView, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.dashboard.tensor_view import is_array, order_statistics, preferred
from leadline.records.formatting import iso

PAGE_FINDINGS: Final = 200
"""Findings per page."""
_AROUND_NS: Final = 15_000_000_000
_AROUND_STEPS: Final = 50
_COUNTED: Final = {"nonfinite": "nonfinite_count"}
"""Numbers of a finding that are a statistic of another name."""


def rules(request: Request) -> Response:
    """Serve ``/runs/{run}/rules``."""
    opened = open_run(request)
    with opened.lock:
        views = rule_views(opened.run)
        links = Links(request.path_params["run"], opened)
    counts = Counter(view.verdict for view in views)
    verdict = request.query_params.get("show", "")
    selected = [view for view in views if verdict not in VERDICTS or view.verdict == verdict]
    findings = [finding for view in selected for finding in view.findings]
    last_page = max(0, len(findings) - 1) // PAGE_FINDINGS
    first = min((parse_integer(request.query_params.get("page")) or 1) - 1, last_page) * PAGE_FINDINGS
    return render(
        request,
        "rules.html",
        {
            "rules": views,
            "selected": selected,
            "inapplicable": [] if verdict in VERDICTS else [view for view in views if view.verdict == "not_applicable"],
            "findings": _by_rule(findings[first : first + PAGE_FINDINGS]),
            "shown": len(findings[first : first + PAGE_FINDINGS]),
            "first": first,
            "count": len(findings),
            "counts": counts,
            "verdicts": VERDICTS,
            "page_findings": PAGE_FINDINGS,
            "verdict": verdict if verdict in VERDICTS else "",
            "links": links,
        },
        page="rules",
    )


def _by_rule(findings: Iterable[FindingView]) -> list[tuple[str, list[FindingView]]]:
    """Group the findings of each rule, which follow each other."""
    return [(alias, list(group)) for alias, group in groupby(findings, key=lambda finding: finding.rule)]


class Links:
    """Links to what a finding names.

    Args:
        name: Run name.
    """

    def __init__(self, name: str, opened: OpenedRun) -> None:
        self._base = f"/runs/{quote(name, safe='')}"
        self._tensors = set(opened.digest.infos())
        self._captured = {name: list(statistics) for name, statistics in opened.digest.captured().items()}
        self._workers = set(opened.digest.workers())
        self._devices = {(sensor.node, sensor.kind, sensor.device) for sensor in opened.digest.channels()}

    def link(self, name: str, finding: FindingView) -> str:
        """Return the page of a tensor, worker or device at the time of a finding; "" if there is none."""
        if name in self._tensors:
            return self.tensor(name, finding.step, finding.worker)
        if name in self._workers:
            return f"{self._base}/ranks"
        if any(name in (device, f"{node}/{device}", f"{kind}/{device}") for node, kind, device in self._devices):
            return self.moment(finding)
        return ""

    def tensor(self, name: str, step: int | None = None, worker: str | None = None) -> str:
        """Return the page of a tensor at a step."""
        parameters: dict[str, object] = {"name": name, "step": step, "worker": worker}
        return (
            f"{self._base}/tensors?{urlencode({key: value for key, value in parameters.items() if value is not None})}"
        )

    def chart(self, finding: FindingView) -> str:
        """Return the query of the chart of what a finding is about, around its steps; "" if it was not captured."""
        for name in finding.tensors:
            captured = [statistic for statistic in self._captured.get(name, ()) if not is_array(statistic)]
            if captured:
                about = ("value", *(_COUNTED.get(name, name) for name in finding.evidence_names))
                statistics = [name for name in about if name in captured]
                start, end = max(0, finding.step - _AROUND_STEPS), finding.last_step + _AROUND_STEPS + 1
                statistic = (statistics or [preferred(order_statistics(captured))])[0]
                return urlencode({"name": name, "statistic": statistic, "start_step": start, "end_step": end})
        return ""

    def moment(self, finding: FindingView) -> str:
        """Return the Nodes page around the time of a finding."""
        start, end = iso(finding.time_ns - _AROUND_NS), iso(finding.time_ns + _AROUND_NS)
        return f"{self._base}/nodes?{urlencode({'from': start, 'to': end})}"
