"""Download of a run, or an interval of it, as a Perfetto trace."""

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

from leadline.dashboard.chart_endpoint import read_range
from leadline.dashboard.page import site
from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span
from leadline.reader.run import Run

_EXPORT_SLOT: Final = threading.BoundedSemaphore(1)
"""One export at a time: each reads a whole run."""
_WAIT_SECONDS: Final = 60.0
_NAME: Final = "trace.json.gz"


def perfetto(request: Request) -> Response:
    """Serve ``/runs/{run}/export/perfetto.json.gz?start_ns=&end_ns=``: a trace in the Chrome trace format."""
    path = site(request).run_cache.path(request.path_params["run"])
    bounds = read_range(request.query_params)
    if not _EXPORT_SLOT.acquire(timeout=_WAIT_SECONDS):
        raise HTTPException(503, "another trace export is running; try again in a minute")
    try:
        folder = tempfile.mkdtemp(prefix="leadline-trace-")
        try:
            trace_path = os.path.join(folder, _NAME)
            export_trace(Run(path), trace_path, Span(bounds.get("start_ns"), bounds.get("end_ns")))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    finally:
        _EXPORT_SLOT.release()
    return FileResponse(
        trace_path,
        media_type="application/gzip",
        filename=f"leadline-{_NAME}",
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
        headers={"Cache-Control": "no-store"},
    )
