"""Model page of a boosted-tree run: the sections of the XGBoost report, live."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis.boosted_run import BoostedRun, RoundCache
from leadline.analysis.trees import is_boosted_run
from leadline.charts import theme
from leadline.dashboard.chart_endpoint import figure_response
from leadline.dashboard.page import open_run, render
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.run import Run
from leadline.reports import xgboost
from leadline.reports.section import Chapter, Section, format_cell


@dataclass(slots=True)
class _Snapshot:
    """Report sections of a run up to an extent; all charts of a page use the same snapshot."""

    extent: Hashable
    boosted: BoostedRun
    sections: dict[str, Section] = field(default_factory=dict)

    def section(self, key: str) -> Section:
        """Return a section, built on first access."""
        if key not in self.sections:
            self.sections[key] = xgboost.SECTIONS[key](self.boosted)
        return self.sections[key]


_INDEX: Final = re.compile(r"[0-9]{1,4}")
_SNAPSHOTS: WeakKeyDictionary[Run, _Snapshot] = WeakKeyDictionary()


def model(request: Request) -> Response:
    """``/runs/{run}/model``."""
    opened = open_run(request)
    with opened.lock:
        chapter = _chapter(_snapshot(opened)) if is_boosted_run(opened.run) else None
    return render(request, "model.html", {"chapter": chapter, "format_cell": format_cell}, page="model")


def _chapter(snapshot: _Snapshot) -> Chapter:
    sections = tuple(map(snapshot.section, xgboost.SECTIONS))
    return Chapter("xgboost", "Boosted trees", sections, xgboost.introduction(snapshot.boosted))


def _snapshot(opened: OpenedRun) -> _Snapshot:
    """Return the snapshot of a run as last read; its lock is held."""
    archive, snapshot = opened.run.archive, _SNAPSHOTS.get(opened.run)
    extent = (
        tuple(sorted(archive.complete_step.items())),
        len(archive.stored.get("predictions", ())),
        opened.run.status,
    )
    if snapshot is None or snapshot.extent != extent:
        previous = snapshot.boosted.cache if snapshot else RoundCache()
        snapshot = _SNAPSHOTS[opened.run] = _Snapshot(extent, BoostedRun(opened.run, previous))
    return snapshot


def chart(request: Request) -> Response:
    """Serve ``/runs/{run}/charts/model.json?section=loss&place=0``: a chart of a section."""
    key, index = request.query_params.get("section", ""), request.query_params.get("place", "0")
    if key not in xgboost.SECTIONS or not _INDEX.fullmatch(index):
        raise HTTPException(404, "no such section")
    opened = open_run(request)
    with opened.lock:
        section = _snapshot(opened).section(key)
    if int(index) >= len(section.charts):
        return figure_response(theme.empty(section.why_empty or "no data yet"))
    return figure_response(section.charts[int(index)].figure)
