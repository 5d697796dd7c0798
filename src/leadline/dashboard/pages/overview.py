"""Overview page of a run: status, findings, time breakdown, resource utilization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import bucketed_time_breakdown
from leadline.analysis.cluster_usage import cluster_usage
from leadline.analysis.time_breakdown import phases
from leadline.analysis.usage import PERCENTILES, SUMMARY_METRICS
from leadline.dashboard import overview_view
from leadline.dashboard.page import open_run, render
from leadline.dashboard.pages.rules import VERDICTS, Links
from leadline.dashboard.rule_view import rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.records import describe
from leadline.records.names import JOB_ENDED
from leadline.records.totals import steps_by_mode
from leadline.store.control import read_actions

_MAX_LOSSES: Final = 4
_SAMPLES: Final = 2_000
_SAMPLED_KINDS: Final = sorted({kind for kind, _, _ in SUMMARY_METRICS})


def overview(request: Request) -> Response:
    """Serve ``/runs/{run}/overview`` and ``/runs/{run}``."""
    opened = open_run(request)
    with opened.lock:
        context = {**_run_context(opened), **_rules_context(opened, request.path_params["run"])}
    return render(request, "overview.html", context, page="overview")


def _run_context(opened: OpenedRun) -> dict[str, Any]:
    """Return the context of the job, its time breakdown, resource utilization and monitoring overhead."""
    run, digest = opened.run, opened.digest
    fired = set(pc.unique(run.findings()["rule"]).to_pylist())
    aliases = {spec.alias: spec.rule for spec in run.manifest.rules}
    time = bucketed_time_breakdown(run, digest, {aliases.get(alias, alias) for alias in fired})
    return {
        "run": run,
        "manifest": run.manifest,
        "status": run.status_document,
        "time": time,
        "job": time.job,
        "parts": overview_view.job_parts(time.job),
        "phases": phases(time.steps),
        "throughput": time.throughput,
        "bottleneck": time.bottleneck,
        "percentiles": list(PERCENTILES),
        "usage": overview_view.usage_rows([*_cluster_usage(opened, time.usage), *time.usage]),
        "has_gpu": any(row["kind"] == "gpu" for row in time.usage),
        "operations": overview_view.operations(run),
        "cost": overview_view.cost(run),
        "warnings": overview_view.warnings(run, digest.damage),
        "actions": read_actions(run.path),
        "steps": steps_by_mode(run.worker_documents().values()),
        "losses": _losses(opened),
        "is_over": run.status in JOB_ENDED,
        "progress": digest.progress,
        "models": _models(opened),
    }


def _cluster_usage(opened: OpenedRun, usage: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the utilization of all nodes together, if there are several."""
    if len({row["node"] for row in usage}) < 2:
        return []
    return cluster_usage(opened.digest.system(kind=_SAMPLED_KINDS, points=_SAMPLES))


def _rules_context(opened: OpenedRun, name: str) -> dict[str, Any]:
    views = rule_views(opened.run)
    return {
        "groups": overview_view.rule_groups(views),
        "counts": Counter(view.verdict for view in views),
        "verdicts": VERDICTS,
        "links": Links(name, opened),
    }


def _models(opened: OpenedRun) -> list[str]:
    """Return the models and optimizers: ``ResNet (36 parameter tensors)``, ``SGD``."""
    documents = opened.run.worker_documents().values()
    optimizers = {optimizer for document in documents for optimizer in document.optimizers}
    return [*describe.models(documents), *sorted(optimizers)]


def _losses(opened: OpenedRun) -> list[str]:
    """Return the first losses and metrics."""
    infos = opened.digest.infos()
    names = list(dict.fromkeys(name for name, _ in opened.digest.scalar_names()))
    selected = [name for name in names if {"losses", "metrics"} & set(infos[name].collections)]
    return (selected or names)[:_MAX_LOSSES]


ROUTES: Final = [Route("/runs/{run}", overview), Route("/runs/{run}/overview", overview)]
