"""Tensors page of a run: losses, layer heat map, any tensor over steps and at a step."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from leadline.charts import tensor_charts
from leadline.dashboard import tensor_view as view
from leadline.dashboard.page import open_run, render
from leadline.dashboard.query import parse_integer
from leadline.dashboard.rule_view import finding_views, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import NotCapturedError, NotYetError
from leadline.records.names import FEATURE_COLLECTIONS

PAGE_ROWS: Final = 1000
"""Tensors per page of the list."""
_MAX_METRICS: Final = 6
"""Charts of losses, and of metrics; all others are in the list of tensors."""
_MAX_WORKERS: Final = 64


def tensors(request: Request) -> Response:
    """Serve ``/runs/{run}/tensors``; with ``?name=`` one tensor."""
    opened = open_run(request)
    with opened.lock:
        if request.query_params.get("name"):
            return _tensor(request, opened)
        return _list(request, opened)


def _list(request: Request, opened: OpenedRun) -> Response:
    parameters = request.query_params
    collection, filter_text = parameters.get("collection", ""), parameters.get("q", "")
    sort = parameters.get("sort", "")
    rows = view.sort_rows(view.tensor_rows(opened, collection=collection, filter_text=filter_text), sort)
    first = max(0, (parse_integer(parameters.get("page")) or 1) - 1) * PAGE_ROWS
    scalars = tensor_charts.scalar_groups(opened.digest)
    metrics = tensor_charts.metrics(opened.digest)
    return render(
        request,
        "tensors.html",
        {
            "rows": rows[first : first + PAGE_ROWS],
            "count": len(rows),
            "page_number": first // PAGE_ROWS + 1,
            "page_count": -(-len(rows) // PAGE_ROWS),
            "collections": view.collections_of(opened),
            "collection": collection,
            "filter_text": filter_text,
            "sort": sort,
            "has_raw": any(row.stored for row in rows),
            "has_findings": any(row.findings for row in rows),
            "groups": scalars,
            "metrics": [
                names[0]
                for group in ("losses", "metrics")
                for names in list(metrics.get(group, {}).values())[:_MAX_METRICS]
            ],
            "heat_map": _heat_map(request, opened),
            "has_tensors": bool(opened.run.tensor_names()),
            "modes": opened.run.modes(),
        },
        page="tensors",
    )


def _heat_map(request: Request, opened: OpenedRun) -> dict[str, object] | None:
    """Return the options of the layer heat map; None: no data."""
    statistics_by_collection = view.statistics_by_collection(opened)
    if not statistics_by_collection:
        return None
    parameters = request.query_params
    of = (
        parameters.get("of")
        if parameters.get("of") in statistics_by_collection
        else next(iter(statistics_by_collection))
    )
    statistics = statistics_by_collection[str(of)]
    statistic = parameters.get("by") if parameters.get("by") in statistics else view.preferred(statistics)
    modes = [mode for mode in opened.run.modes() if mode != "global"] or ["train"]
    mode = parameters.get("mode") if parameters.get("mode") in modes else ("train" if "train" in modes else modes[0])
    query = urlencode({"of": of, "by": statistic, "mode": mode, "worker": parameters.get("worker", "")})
    all_statistics = list(dict.fromkeys(name for names in statistics_by_collection.values() for name in names))
    return {
        "title": "Feature heat map" if of in FEATURE_COLLECTIONS else "Layer heat map",
        "collections": list(statistics_by_collection),
        "of": of,
        "statistics": view.order_statistics(all_statistics),
        "by": statistic,
        "query": query,
        "modes": modes,
        "mode": mode,
        "workers": opened.digest.workers()[:_MAX_WORKERS],
        "worker": parameters.get("worker", ""),
        "description": view.meaning(str(statistic)),
    }


def _tensor(request: Request, opened: OpenedRun) -> Response:
    parameters = request.query_params
    name, base = parameters["name"], view.run_link(request.path_params["run"])
    try:
        tensor = opened.run.tensor(name)
    except (NotCapturedError, NotYetError) as error:
        context = {"name": name, "reason": str(error), "capture_option": view.capture_option(name)}
        response = render(request, "tensor_not_captured.html", context, page="tensors")
        response.status_code = 404
        return response
    worker, step = parameters.get("worker") or None, parse_integer(parameters.get("step"))
    available = view.statistics_of(opened, name)
    has_raw = bool(opened.run.archive.stored.get(name))
    if not available and has_raw:
        available = list(tensor_charts.COMPUTED)
    selected = [statistic for statistic in parameters.getlist("statistic") if statistic in available] or (
        [view.preferred(available)] if available else []
    )
    info = opened.run.archive.infos().get(name)
    findings = [finding for finding in finding_views(rule_views(opened.run)) if name in finding.tensors]
    if step is None and findings:
        step = findings[0].step
    summary = view.capture_summary(opened, name, step)
    return render(
        request,
        "tensor.html",
        {
            "name": name,
            "tensor": tensor,
            "dtype": info.dtype if info else "",
            "available": available,
            "selected": selected,
            "descriptions": {statistic: view.meaning(statistic) for statistic in available},
            "has_raw": has_raw,
            "has_histogram": view.has_histogram(opened, name),
            "workers": opened.digest.workers()[:_MAX_WORKERS],
            "worker": worker or "",
            "modes": summary.modes,
            "mode": parameters.get("mode", ""),
            "summary": summary,
            "findings": findings,
            "capture_option": view.capture_option(name),
            "query": _chart_query(name, selected, worker, parameters.get("mode")),
            "base": f"{base}/tensors",
            "at_step": _at_step(opened, name, step, worker, parameters.get("mode") or None, summary),
            "links": {"rules": f"{base}/rules", "download": f"{base}/tensors.npy?{urlencode({'name': name})}"},
        },
        page="tensors",
    )


def _chart_query(name: str, statistics: list[str], worker: str | None, mode: str | None) -> str:
    parameters = {"name": name, "statistic": ",".join(statistics), "worker": worker, "mode": mode}
    return urlencode({key: value for key, value in parameters.items() if value})


def _at_step(
    opened: OpenedRun,
    name: str,
    step: int | None,
    worker: str | None,
    mode: str | None,
    summary: view.CaptureSummary,
) -> dict[str, object]:
    """Return the template context of a tensor at a step; None: the last."""
    step = summary.last if step is None else step
    steps = view.stored_steps(opened, name, worker, mode)
    stored = tensor_charts.stored_at(opened.run, name, step, worker, mode)
    stored_step = opened.run.archive.step_of(stored) if stored else -1
    nearest = summary.nearest
    run, values, reason, size = opened.run, None, "", None
    if stored is not None:
        values, reason = tensor_charts.load_for_display(run, name, stored, worker)
        size = tensor_charts.bytes_of(run, name, stored, worker)
        worker = None if run.tensor(name).is_sharded and worker is None else stored.worker
    return {
        "step": step,
        "nearest": nearest,
        "stored": stored,
        "worker": worker or "",
        "shape": values.shape if values is not None else stored.shape if stored is not None else (),
        "stored_step": stored_step,
        "steps": steps,
        "reason": reason,
        "table": view.first_values(values) if values is not None else None,
        "has_image": values is not None and tensor_charts.as_image(values) is not None,
        "before": max((known for known in steps if known < stored_step), default=None),
        "after": min((known for known in steps if known > stored_step >= 0), default=None),
        "numbers": view.numbers_at(opened, name, nearest, mode or summary.modes[0]) if nearest is not None else [],
        "size": size,
    }


def download(request: Request) -> Response:
    """Serve ``/runs/{run}/tensors.npy?name=&step=&worker=&mode=``: a raw tensor for ``numpy.load``."""
    opened = open_run(request)
    parameters = request.query_params
    name, step = parameters.get("name", ""), parse_integer(parameters.get("step"))
    with opened.lock:
        worker, mode = parameters.get("worker") or None, parameters.get("mode") or None
        candidates = tensor_charts.stored_in(opened.run, name, worker, mode)
        matches = [candidate for candidate in candidates if opened.run.archive.step_of(candidate) == step]
    if not matches:
        raise HTTPException(404, "this tensor was not stored at this step")
    if matches[0].is_text:
        raise HTTPException(409, f"the elements are texts; read them with run.tensor({name!r}).value({step})")
    if not matches[0].is_readable:
        raise HTTPException(409, f"NumPy has no type {matches[0].dtype}")
    try:
        with opened.lock:
            values = tensor_charts.load(opened.run, name, matches[0], worker)
    except NotCapturedError:
        raise HTTPException(404, "not all workers have stored their shards of this tensor; choose a worker") from None
    file_name = quote(view.file_name(name, step or 0))
    return StreamingResponse(
        view.npy_chunks(values),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"},
    )
