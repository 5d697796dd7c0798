"""The page Tensors of a run: losses, the network at one glance, any tensor over steps and at a step."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from leadline.dashboard import tensor_charts
from leadline.dashboard import tensor_view as view
from leadline.dashboard.charts import Chart
from leadline.dashboard.page import opened, render
from leadline.dashboard.query_parameters import whole_number
from leadline.dashboard.rule_view import finding_views, rule_views
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import NotCapturedError, NotYetError

PAGE_ROWS: Final = 1000
"""So many tensors are listed at a time."""
_PREFERRED: Final = ("abs_mean", "l2", "abs_max", "max", "mean", "value")
_MOST_WORKERS: Final = 64


def tensors(request: Request) -> Response:
    """``/runs/{run}/tensors``; with ``?name=`` one of them."""
    found = opened(request)
    with found.lock:
        if request.query_params.get("name"):
            return _tensor(request, found)
        return _list(request, found)


def _list(request: Request, found: OpenedRun) -> Response:
    asked = request.query_params
    collection, words = asked.get("collection", ""), asked.get("q", "")
    rows = view.tensor_rows(found, collection=collection, words=words)
    first = max(0, (whole_number(asked.get("page")) or 1) - 1) * PAGE_ROWS
    scalars = tensor_charts.scalar_groups(found)
    return render(
        request,
        "tensors.html",
        {
            "rows": rows[first : first + PAGE_ROWS],
            "count": len(rows),
            "page_number": first // PAGE_ROWS + 1,
            "page_count": -(-len(rows) // PAGE_ROWS),
            "collections": view.collections_of(found),
            "collection": collection,
            "words": words,
            "groups": scalars,
            "network": _network(request, found),
            "has_tensors": bool(_names(found)),
            "modes": found.run.modes(),
        },
        page="tensors",
    )


def _names(found: OpenedRun) -> list[str]:
    return found.run.tensor_names()


def _network(request: Request, found: OpenedRun) -> dict[str, Any] | None:
    """The choices of the network's heat map; None: there is nothing to draw."""
    offered = view.statistics_by_collection(found)
    if not offered:
        return None
    asked = request.query_params
    of = asked.get("of") if asked.get("of") in offered else next(iter(offered))
    statistics = offered[str(of)]
    chosen = asked.get("by") if asked.get("by") in statistics else preferred(statistics)
    modes = [mode for mode in found.run.modes() if mode != "global"]
    chosen_mode = asked.get("mode") if asked.get("mode") in modes else ("train" if "train" in modes else modes[0])
    query = urlencode({"of": of, "by": chosen, "mode": chosen_mode, "worker": asked.get("worker", "")})
    everything = list(dict.fromkeys(name for names in offered.values() for name in names))
    return {
        "collections": list(offered),
        "of": of,
        "statistics": view.in_order(everything),
        "by": chosen,
        "query": query,
        "modes": modes,
        "mode": chosen_mode,
        "workers": found.digest.workers()[:_MOST_WORKERS],
        "worker": asked.get("worker", ""),
        "meaning": view.meaning(str(chosen)),
    }


def preferred(statistics: list[str]) -> str:
    """What is drawn unless somebody chooses."""
    return next((each for each in _PREFERRED if each in statistics), statistics[0])


def _tensor(request: Request, found: OpenedRun) -> Response:
    asked = request.query_params
    name, run = asked["name"], request.path_params["run"]
    try:
        tensor = found.run.tensor(name)
    except (NotCapturedError, NotYetError) as error:
        said = {"name": name, "why": str(error), "how": view.capture_words(name)}
        answer = render(request, "tensor_absent.html", said, page="tensors")
        answer.status_code = 404
        return answer
    worker, step = asked.get("worker") or None, whole_number(asked.get("step"))
    offered = view.statistics_of(found, name)
    has_raw = bool(view.stored_steps(found, name, None))
    if not offered and has_raw:
        offered = list(tensor_charts.COMPUTED)
    chosen = [each for each in asked.getlist("statistic") if each in offered] or (
        [preferred(offered)] if offered else []
    )
    info = found.run.archive.infos().get(name)
    findings = [each for each in finding_views(rule_views(found.run)) if name in each.tensors]
    if step is None and findings:
        step = findings[0].step
    known = view.captured(found, name, step)
    return render(
        request,
        "tensor.html",
        {
            "name": name,
            "tensor": tensor,
            "dtype": info.dtype if info else "",
            "offered": offered,
            "chosen": chosen,
            "meanings": {each: view.meaning(each) for each in offered},
            "has_raw": has_raw,
            "has_histogram": view.has_histogram(found, name),
            "workers": found.digest.workers()[:_MOST_WORKERS],
            "worker": worker or "",
            "modes": known.modes,
            "mode": asked.get("mode", ""),
            "scale": asked.get("scale", ""),
            "known": known,
            "findings": findings,
            "how": view.capture_words(name),
            "query": _chart_query(name, chosen, worker, asked.get("mode"), asked.get("scale")),
            "base": f"{view.run_link(run)}/tensors",
            "moment": _moment(found, name, step, worker, known),
            "links": _links(run, name),
        },
        page="tensors",
    )


def _chart_query(name: str, chosen: list[str], worker: str | None, mode: str | None, scale: str | None) -> str:
    told = {"name": name, "statistic": ",".join(chosen), "worker": worker, "mode": mode, "scale": scale}
    return urlencode({key: each for key, each in told.items() if each})


def _links(run: str, name: str) -> dict[str, str]:
    base = view.run_link(run)
    return {"rules": f"{base}/rules", "download": f"{base}/tensors.npy?{urlencode({'name': name})}"}


def _moment(found: OpenedRun, name: str, step: int | None, worker: str | None, known: view.Captured) -> dict[str, Any]:
    """What is known of a tensor at a step; None: the last."""
    step = known.last if step is None else step
    steps = view.stored_steps(found, name, worker)
    stored = view.stored_at(found, name, step, worker)
    nearest = known.nearest
    values, why = view.load_shown(stored) if stored else (None, "")
    return {
        "step": step,
        "nearest": nearest,
        "stored": stored,
        "steps": steps,
        "why": why,
        "table": view.first_values(values) if values is not None else None,
        "has_image": values is not None and view.as_image(values) is not None,
        "before": max((each for each in steps if stored and each < stored.step), default=None),
        "after": min((each for each in steps if stored and each > stored.step), default=None),
        "numbers": tensor_charts.numbers_at(found, name, nearest) if nearest is not None else [],
        "size": stored.nbytes if stored else None,
    }


def download(request: Request) -> Response:
    """``/runs/{run}/tensors.npy?name=&step=&worker=``: a tensor as it was stored, for ``numpy.load``."""
    found = opened(request)
    asked = request.query_params
    name, step = asked.get("name", ""), whole_number(asked.get("step"))
    with found.lock:
        kept = found.run.archive.stored.get(name, [])
        meant = [each for each in kept if each.step == step and asked.get("worker") in (None, "", each.worker)]
    if not meant:
        raise HTTPException(404, "this tensor was not stored at this step")
    if not meant[0].is_readable:
        raise HTTPException(409, f"numpy has no type {meant[0].dtype}")
    pieces = view.npy_chunks(meant[0])
    first = next(pieces)  # what cannot be read is said before the answer begins
    told = quote(view.file_name(name, meant[0].step))
    return StreamingResponse(
        _joined(first, pieces),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{told}"', "Cache-Control": "no-store"},
    )


def _joined(first: bytes, pieces: Any) -> Any:
    yield first
    yield from pieces


ROUTES: Final = [Route("/runs/{run}/tensors", tensors), Route("/runs/{run}/tensors.npy", download)]
CHARTS: Final[dict[str, Chart]] = tensor_charts.CHARTS
