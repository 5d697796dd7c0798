"""Server-sent events of changes to a run or runs directory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from leadline.dashboard.live_events import ChangeStamp, RootChangeStamp, StreamedState
from leadline.dashboard.page import site


async def live(request: Request) -> Response:
    """Serve ``/runs/{run}/live``: an event ``changed`` whenever the run has changed."""
    path = site(request).run_cache.path(request.path_params["run"])
    return _stream(site(request).notifier.states(path, ChangeStamp))


async def live_root(request: Request) -> Response:
    """Serve ``/live``: the same for the runs directory."""
    state = site(request)
    return _stream(state.notifier.states(state.run_cache.root, RootChangeStamp))


def _stream(states: AsyncIterator[StreamedState | None]) -> Response:
    async def events() -> AsyncIterator[str]:
        async for state in states:
            yield ": keepalive\n\n" if state is None else f"event: changed\ndata: {json.dumps(state)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
