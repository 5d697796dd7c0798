"""Downloads: a run, or a part of it, as one trace that Perfetto opens."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from typing import Final

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from leadline.dashboard.charts import Chart, read_question
from leadline.dashboard.page import site
from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span
from leadline.reader.run import Run

_WORKING: Final = threading.BoundedSemaphore(1)
"""One trace at a time: each reads all of a run."""
_PATIENCE_SECONDS: Final = 60.0
_NAME: Final = "trace.json.gz"


def perfetto(request: Request) -> Response:
    """``/runs/{run}/export/perfetto.json.gz?start_ns=&end_ns=``: a trace in the Chrome trace format."""
    path = site(request).shelf.path(request.path_params["run"])
    asked = read_question(request.query_params)
    if not _WORKING.acquire(timeout=_PATIENCE_SECONDS):
        raise HTTPException(503, "another trace is being written; try again in a minute")
    try:
        folder = tempfile.mkdtemp(prefix="leadline-trace-")
        try:
            written = os.path.join(folder, _NAME)
            export_trace(Run(path), written, Span(asked.start_ns, asked.end_ns))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    finally:
        _WORKING.release()
    return FileResponse(
        written,
        media_type="application/gzip",
        filename=f"leadline-{_NAME}",
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
        headers={"Cache-Control": "no-store"},
    )


ROUTES: Final = [Route("/runs/{run}/export/perfetto.json.gz", perfetto)]
CHARTS: Final[dict[str, Chart]] = {}
