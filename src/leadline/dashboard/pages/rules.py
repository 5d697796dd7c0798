"""The page Rules of a run: every rule, what it found, and what that means."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard.charts import Chart
from leadline.dashboard.page import opened, render
from leadline.dashboard.query_parameters import whole_number
from leadline.dashboard.rule_view import FindingView, finding_views, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.records.formatting import iso

VERDICTS: Final = {
    "fired": "fired",
    "error": "failed itself",
    "undecided": "undecided",
    "clear": "clear",
    "waiting": "not judged yet",
}
"""Words for verdicts, in the order in which they are told."""
PAGE_FINDINGS: Final = 200
"""So many findings are shown at a time."""
_AROUND_NS: Final = 15_000_000_000


def rules(request: Request) -> Response:
    """``/runs/{run}/rules``."""
    found = opened(request)
    with found.lock:
        views = rule_views(found.run)
        links = Links(request.path_params["run"], found)
    counts = Counter(each.verdict for each in views)
    chosen = request.query_params.get("show", "")
    shown = [each for each in views if chosen not in VERDICTS or each.verdict == chosen]
    findings = finding_views(shown)
    last_page = max(0, len(findings) - 1) // PAGE_FINDINGS
    first = min((whole_number(request.query_params.get("page")) or 1) - 1, last_page) * PAGE_FINDINGS
    return render(
        request,
        "rules.html",
        {
            "rules": views,
            "shown": shown,
            "findings": findings[first : first + PAGE_FINDINGS],
            "first": first,
            "count": len(findings),
            "counts": counts,
            "verdicts": VERDICTS,
            "page_findings": PAGE_FINDINGS,
            "chosen": chosen if chosen in VERDICTS else "",
            "links": links,
        },
        page="rules",
    )


class Links:
    """Where what a finding names is to be seen.

    Args:
        name: The run's name.
    """

    def __init__(self, name: str, found: OpenedRun) -> None:
        self._base = f"/runs/{quote(name, safe='')}"
        self._tensors = set(found.digest.infos())
        self._workers = set(found.digest.workers())
        self._devices = {(each.node, each.kind, each.device) for each in found.digest.channels()}

    def shown(self, name: str, finding: FindingView) -> str:
        """The page that shows a tensor, a worker or a device at that moment; "": none does."""
        if name in self._tensors:
            return self.tensor(name, finding.step, finding.worker)
        if name in self._workers:
            return f"{self._base}/ranks"
        if any(name in (device, f"{node}/{device}", f"{kind}/{device}") for node, kind, device in self._devices):
            return self.moment(finding)
        return ""

    def tensor(self, name: str, step: int | None = None, worker: str | None = None) -> str:
        """A tensor, at a step."""
        told: dict[str, Any] = {"name": name, "step": step, "worker": worker}
        return f"{self._base}/tensors?{urlencode({key: each for key, each in told.items() if each is not None})}"

    def moment(self, finding: FindingView) -> str:
        """What the machine did around that moment."""
        begin, end = iso(finding.time_ns - _AROUND_NS), iso(finding.time_ns + _AROUND_NS)
        return f"{self._base}/nodes?{urlencode({'from': begin, 'to': end})}"


ROUTES: Final = [Route("/runs/{run}/rules", rules)]
CHARTS: Final[dict[str, Chart]] = {}
