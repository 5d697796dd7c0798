"""The page Overview of a run: how it stands, what was found, where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import points_for, time_of
from leadline.analysis.cluster_usage import usage_in_all
from leadline.analysis.interruptions import interruptions
from leadline.analysis.overview import steps_of
from leadline.analysis.time_breakdown import phases
from leadline.analysis.usage import PERCENTILES, WATCHED
from leadline.dashboard import overview_view
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.page import opened, render
from leadline.dashboard.pages.rules import VERDICTS, Links
from leadline.dashboard.rule_view import rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.records.formatting import model
from leadline.records.names import JOB_ENDED
from leadline.store.actions import read_actions

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_LOSSES: Final = 4
_SAMPLES: Final = 2_000
_WATCHED_KINDS: Final = sorted({kind for kind, _, _ in WATCHED})


def overview(request: Request) -> Response:
    """``/runs/{run}/overview``, which is also ``/runs/{run}``."""
    found = opened(request)
    with found.lock:
        said = {**_run_said(found), **_rules_said(found, request.path_params["run"])}
    return render(request, "overview.html", said, page="overview")


def _run_said(found: OpenedRun) -> dict[str, Any]:
    """The job, where its time went, the machine, and what watching cost."""
    run, digest = found.run, found.digest
    fired = set(pc.unique(run.findings()["rule"]).to_pylist())
    aliases = {each.alias: each.rule for each in run.manifest.rules}
    time = time_of(run, digest, {aliases.get(each, each) for each in fired})
    return {
        "run": run,
        "manifest": run.manifest,
        "status": run.status_document,
        "time": time,
        "job": time.job,
        "parts": overview_view.job_parts(time.job),
        "phases": phases(time.steps),
        "throughput": time.throughput,
        "bound": time.bound,
        "percentiles": list(PERCENTILES),
        "usage": overview_view.usage_rows([*_in_all(found, time.usage), *time.usage]),
        "has_gpu": any(each["kind"] == "gpu" for each in time.usage),
        "operations": overview_view.operations(run),
        "cost": overview_view.cost(run),
        "warnings": overview_view.warnings(run, digest.damage),
        "actions": read_actions(run.path),
        "steps": steps_of(list(run.worker_documents().values())),
        "losses": _losses(found),
        "is_over": run.status in JOB_ENDED,
        "progress": digest.progress,
        "models": _models(found),
    }


def _in_all(found: OpenedRun, usage: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The use of all nodes together, where there are several."""
    if len({each["node"] for each in usage}) < 2:
        return []
    return usage_in_all(found.digest.system(kind=_WATCHED_KINDS, points=_SAMPLES))


def _rules_said(found: OpenedRun, name: str) -> dict[str, Any]:
    views = rule_views(found.run)
    return {
        "groups": overview_view.rule_groups(views),
        "counts": Counter(each.verdict for each in views),
        "verdicts": VERDICTS,
        "links": Links(name, found),
    }


def _models(found: OpenedRun) -> list[str]:
    """What trains: ``ResNet (36 parameter tensors)``, ``SGD``."""
    documents = found.run.worker_documents().values()
    models = {model(each["name"], each["parameters"]) for one in documents for each in one["models"]}
    return [*sorted(models), *sorted({each for one in documents for each in one["optimizers"]})]


def _losses(found: OpenedRun) -> list[str]:
    """The losses, and the metrics that tell most."""
    infos = found.digest.infos()
    names = list(dict.fromkeys(name for name, _ in found.digest.scalar_names()))
    shown = [each for each in names if {"losses", "metrics"} & set(infos[each].collections)]
    return (shown or names)[:_MOST_LOSSES]


def loss_chart(found: OpenedRun, question: Question) -> Figure:
    """One number over steps, by mode, with the findings marked: ``name``."""
    from leadline.figures.marks import mark
    from leadline.figures.scalars import scalars

    table = found.digest.scalar(
        question.get("name") or "", start_step=question.start_step, end_step=question.end_step, points=question.points
    )
    shown = scalars(table, missing="nothing of this name was captured yet")
    return mark(shown, found.run.findings().to_pylist()) if table.num_rows else shown


def job_chart(found: OpenedRun, question: Question) -> Figure:
    """Initialization, training loop and finalization."""
    from leadline.figures.shares import job_phases

    return job_phases(found.digest.job(), title="Phases of the job")


def phases_chart(found: OpenedRun, question: Question) -> Figure:
    """What the training steps were made of."""
    from leadline.figures.shares import pie

    return pie(
        found.digest.phases(mode="train"),
        title="Phases of the training steps",
        missing="no training step was timed yet",
    )


def progress_chart(found: OpenedRun, question: Question) -> Figure:
    """Steps over time, with the phases of the job and the interruptions."""
    from leadline.figures.phases import progress

    digest = found.digest
    points = min(question.points, points_for(len(digest.workers())))
    table = digest.steps(points=points)
    return progress(table, job=digest.job(), interruptions=interruptions(found.run.status_document, table))


ROUTES: Final = [Route("/runs/{run}", overview), Route("/runs/{run}/overview", overview)]
CHARTS: Final[dict[str, Chart]] = {
    "loss": loss_chart,
    "job": job_chart,
    "phases": phases_chart,
    "progress": progress_chart,
}
