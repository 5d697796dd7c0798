"""Changes of runs and of a runs directory, for all viewers by one poll."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Final, NotRequired, Protocol, TypedDict

from leadline.reader import liveness
from leadline.reader.summary import summarize
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.folder_watch import FolderTree

POLL_SECONDS: Final = 1.5
_ENDED_POLL_SECONDS: Final = 5.0
_KEEPALIVE_SECONDS: Final = 15.0
PARTS: Final = (
    layout.SERIES,
    layout.TIMELINE,
    layout.SYSTEM,
    layout.TENSORS,
    layout.RULES,
    layout.CONTROL,
    layout.PROFILES,
    "reports",
    layout.WORKERS,
)
"""Parts of a run whose changes pages can subscribe to."""
_ENDED_RUNS_PER_READ: Final = 200
"""Number of ended runs that are checked again at each read: one may have been resumed."""


class StreamedState(TypedDict):
    """What has changed if it differs from the one before; viewers get it as JSON."""

    status: str
    level: NotRequired[str]
    """Of a run: the level of its outcome once it has ended."""
    parts: dict[str, int]
    """A number for each part, which differs when the part has changed."""


class ChangeSource(Protocol):
    """Source of change stamps."""

    def read(self) -> StreamedState:
        """Return the current stamp: equal to the last one if nothing has changed."""
        ...


class _Poller:
    """Polls one source that at least one viewer has open."""

    def __init__(self, source: ChangeSource) -> None:
        self.source = source
        self.viewers = 0
        self.state: StreamedState | None = None
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

    async def states(self, path: str, make: Callable[[str], ChangeSource]) -> AsyncIterator[StreamedState | None]:
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


class ChangeStamp:
    """Change stamp of one run."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders = {part: FolderTree(os.path.join(run, part)) for part in PARTS}

    def read(self) -> StreamedState:
        """Return ``status``, for a run that has ended ``level``, and ``parts``: a number for each part
        that differs when the part has changed.
        """
        parts = {part: zlib.crc32(repr(list(folder.states())).encode()) for part, folder in self._folders.items()}
        parts["actions"] = stamp(os.path.join(self._run, layout.ACTIONS))[1]
        status = liveness.effective_status(self._run)
        summary = summarize(self._run) if status in JOB_ENDED else None
        return {"status": status, "level": summary.level if summary else "", "parts": parts}


def stamp(path: str) -> tuple[int, int]:
    """Return the modification time and size of a file; zeros if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


class RootChangeStamp:
    """Change stamp of a runs directory: reads active runs each time and ended runs in rotation."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._stamps_by_path: dict[str, tuple[bool, tuple[object, ...]]] = {}
        self._offset = 0

    def read(self) -> StreamedState:
        """Return ``parts``: for ``runs`` a number that differs when a run was added, removed or has progressed."""
        paths = self._paths()
        self._stamps_by_path = {path: entry for path, entry in self._stamps_by_path.items() if path in paths}
        ended = [path for path in paths if self._stamps_by_path.get(path, (False,))[0]]
        start = self._offset % max(1, len(ended))
        self._offset += _ENDED_RUNS_PER_READ
        again = set(ended[start : start + _ENDED_RUNS_PER_READ])
        for path in paths:
            if path in again or not self._stamps_by_path.get(path, (False,))[0]:
                self._stamps_by_path[path] = _run_stamp(path)
        return {"status": "", "parts": {"runs": zlib.crc32(repr(sorted(self._stamps_by_path.items())).encode())}}

    def _paths(self) -> dict[str, None]:
        try:
            with os.scandir(self._root) as entries:
                paths = [entry.path for entry in entries]
        except OSError:
            return {}
        return dict.fromkeys(path for path in paths if path in self._stamps_by_path or layout.is_run(path))


def _run_stamp(path: str) -> tuple[bool, tuple[object, ...]]:
    """Return whether a run has ended, and the stamp of what a run list shows of it."""
    status = liveness.effective_status(path)
    documents = (layout.STATUS, layout.WORKERS, layout.RULE_SUMMARY)
    return status in JOB_ENDED, (status, *(stamp(os.path.join(path, name)) for name in documents))
