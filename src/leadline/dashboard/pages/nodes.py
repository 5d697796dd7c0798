"""Nodes page of a run: system metrics of each node above the training phases."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard import node_view
from leadline.dashboard.page import open_run, render
from leadline.records.names import JOB_ENDED

_LAST_STEPS: Final = (30, 100, 300)
"""Selectable numbers of last steps."""


def nodes(request: Request) -> Response:
    """Serve ``/runs/{run}/nodes``."""
    opened = open_run(request)
    with opened.lock:
        views = node_view.node_views(opened.run, opened.digest)
        context = {
            "nodes": views,
            "node": node_view.chosen(views, request.query_params.get("node")),
            "last": _LAST_STEPS,
            "workers": opened.digest.workers(),
            "is_over": opened.run.status in JOB_ENDED,
            "span_ns": opened.digest.span_ns(),
            "progress": opened.digest.progress,
        }
    return render(request, "nodes.html", context, page="nodes")


ROUTES: Final = [Route("/runs/{run}/nodes", nodes)]
