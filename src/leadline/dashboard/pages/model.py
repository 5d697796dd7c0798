"""The page Model of a run of boosted trees: the sections of the XGBoost report, live."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from plotly.graph_objects import Figure
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.boosted_run import Boosted, Known
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.page import opened, render
from leadline.dashboard.run_cache import OpenedRun
from leadline.figures import theme
from leadline.reader.run import Run
from leadline.reports import xgboost
from leadline.reports.section import Chapter, Section, format_cell


@dataclass(slots=True)
class _Look:
    """What was made of a run as far as it had come; all charts of a page are of one look."""

    extent: Hashable
    boosted: Boosted
    sections: dict[str, Section] = field(default_factory=dict)

    def section(self, key: str) -> Section:
        """One section, made when it is first asked for."""
        if key not in self.sections:
            self.sections[key] = xgboost.section(self.boosted, key)
        return self.sections[key]


_PLACE: Final = re.compile(r"[0-9]{1,4}")
_LOOKS: WeakKeyDictionary[Run, _Look] = WeakKeyDictionary()


def model(request: Request) -> Response:
    """``/runs/{run}/model``."""
    found = opened(request)
    with found.lock:
        chapter = _chapter(_look(found)) if xgboost.is_of_trees(found.run) else None
    return render(request, "model.html", {"chapter": chapter, "spoken": format_cell}, page="model")


def _chapter(look: _Look) -> Chapter:
    sections = tuple(map(look.section, xgboost.SECTIONS))
    return Chapter("xgboost", "Boosted trees", sections, xgboost.opening(look.boosted))


def _look(found: OpenedRun) -> _Look:
    """The run as it was last read; its lock is held."""
    archive, look = found.run.archive, _LOOKS.get(found.run)
    extent = (
        tuple(sorted(archive.complete_step.items())),
        len(archive.stored.get("predictions", ())),
        found.run.status,
    )
    if look is None or look.extent != extent:
        known = look.boosted.known if look else Known()
        look = _LOOKS[found.run] = _Look(extent, Boosted(found.run, known))
    return look


def _chart(found: OpenedRun, question: Question) -> Figure:
    """One chart of one section: ``section=loss&place=0``."""
    wanted, place = question.get("section") or "", question.get("place") or "0"
    if wanted not in xgboost.SECTIONS or not _PLACE.fullmatch(place):
        raise HTTPException(404, "there is no such section")
    section = _look(found).section(wanted)
    if int(place) >= len(section.charts):
        return theme.empty(section.why_empty or "there is nothing to see yet")
    return section.charts[int(place)].figure


ROUTES: Final = [Route("/runs/{run}/model", model)]
CHARTS: Final[dict[str, Chart]] = {"model": _chart}
