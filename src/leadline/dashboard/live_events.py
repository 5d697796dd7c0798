"""What a page that is open hears: server-sent events, one whenever something came, from one look for all viewers."""

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

EVERY_SECONDS: Final = 1.0
_ENDED_SECONDS: Final = 5.0
_STILL_HERE_SECONDS: Final = 15.0


class Looking(Protocol):
    """Looks at something on disk."""

    def look(self) -> dict[str, Any]:
        """What is to be seen: equal to the last answer where nothing has changed."""
        ...


class _Watched:
    """Something that at least one viewer has open."""

    def __init__(self, looking: Looking) -> None:
        self.looking = looking
        self.viewers = 0
        self.state: dict[str, Any] | None = None
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def watch(self) -> None:
        while True:
            found = await asyncio.to_thread(self.looking.look)
            if found != self.state:
                self.state = found
                self.wake()
            await asyncio.sleep(_ENDED_SECONDS if found["status"] in JOB_ENDED else EVERY_SECONDS)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Watchers:
    """One look a second at what somebody has open, however many have it open; none at what nobody has."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._is_closing = False

    async def states(self, path: str, make: Callable[[str], Looking]) -> AsyncIterator[dict[str, Any] | None]:
        """What is to be seen, now and whenever it has changed; None now and then, to learn who has left.

        Args:
            make: Makes what looks at a path.
        """
        watched = self._watched.setdefault(path, _Watched(make(path)))
        watched.viewers += 1
        watched.task = watched.task or asyncio.create_task(watched.watch())
        try:
            known = None
            while not self._is_closing:
                changed = watched.changed
                if watched.state is not None and watched.state != known:
                    known = watched.state
                    yield known
                elif not await _is_set(changed):
                    yield None
        finally:
            watched.viewers -= 1
            if not watched.viewers:
                watched.task.cancel()
                self._watched.pop(path, None)

    def close(self) -> None:
        """End all streams; to be called in the loop's thread."""
        self._is_closing = True
        for each in self._watched.values():
            each.wake()


async def _is_set(event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), _STILL_HERE_SECONDS)
    except TimeoutError:
        return False
    return True


async def live(request: Request) -> Response:
    """``/runs/{run}/live``: an event ``changed`` whenever the run grew."""
    path = site(request).shelf.path(request.path_params["run"])
    return _stream(site(request).watchers.states(path, ChangeStamp))


async def live_root(request: Request) -> Response:
    """``/live``: the same for the folder of runs."""
    found = site(request)
    return _stream(found.watchers.states(found.shelf.root, RootChangeStamp))


def _stream(states: AsyncIterator[dict[str, Any] | None]) -> Response:
    async def events() -> AsyncIterator[str]:
        async for state in states:
            yield ": still here\n\n" if state is None else f"event: changed\ndata: {json.dumps(state)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
