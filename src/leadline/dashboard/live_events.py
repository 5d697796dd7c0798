"""Server-sent events of changes to a run, one poll shared by all viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from leadline.dashboard.change_stamp import ChangeStamp, RootChangeStamp
from leadline.dashboard.page import site
from leadline.records.names import JOB_ENDED

POLL_SECONDS: Final = 1.5
_ENDED_POLL_SECONDS: Final = 5.0
_KEEPALIVE_SECONDS: Final = 15.0


class ChangeSource(Protocol):
    """Source of change stamps."""

    def read(self) -> dict[str, Any]:
        """Return the current stamp: equal to the last one if nothing has changed."""
        ...


class _Poller:
    """Polls one source that at least one viewer has open."""

    def __init__(self, source: ChangeSource) -> None:
        self.source = source
        self.viewers = 0
        self.state: dict[str, Any] | None = None
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def poll(self) -> None:
        while True:
            state = await asyncio.to_thread(self.source.read)
            if state != self.state:
                self.state = state
                self.wake()
            await asyncio.sleep(_ENDED_POLL_SECONDS if state["status"] in JOB_ENDED else POLL_SECONDS)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class ChangeNotifier:
    """Polls each open run at intervals for all its viewers; runs without viewers are not polled."""

    def __init__(self) -> None:
        self._pollers: dict[str, _Poller] = {}
        self._is_closing = False

    async def states(self, path: str, make: Callable[[str], ChangeSource]) -> AsyncIterator[dict[str, Any] | None]:
        """Yield the current stamp and each new one; None from time to time, to detect closed connections.

        Args:
            make: Creates the source for a path.
        """
        poller = self._pollers.setdefault(path, _Poller(make(path)))
        poller.viewers += 1
        poller.task = poller.task or asyncio.create_task(poller.poll())
        try:
            last_state = None
            while not self._is_closing:
                changed = poller.changed
                if poller.state is not None and poller.state != last_state:
                    last_state = poller.state
                    yield last_state
                elif not await _is_set(changed):
                    yield None
        finally:
            poller.viewers -= 1
            if not poller.viewers:
                poller.task.cancel()
                self._pollers.pop(path, None)

    def close(self) -> None:
        """End all streams; call it in the event loop's thread."""
        self._is_closing = True
        for poller in self._pollers.values():
            poller.wake()


async def _is_set(event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), _KEEPALIVE_SECONDS)
    except TimeoutError:
        return False
    return True


async def live(request: Request) -> Response:
    """Serve ``/runs/{run}/live``: an event ``changed`` whenever the run has changed."""
    path = site(request).run_cache.path(request.path_params["run"])
    return _stream(site(request).notifier.states(path, ChangeStamp))


async def live_root(request: Request) -> Response:
    """Serve ``/live``: the same for the runs directory."""
    state = site(request)
    return _stream(state.notifier.states(state.run_cache.root, RootChangeStamp))


def _stream(states: AsyncIterator[dict[str, Any] | None]) -> Response:
    async def events() -> AsyncIterator[str]:
        async for state in states:
            yield ": keepalive\n\n" if state is None else f"event: changed\ndata: {json.dumps(state)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
