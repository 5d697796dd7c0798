"""Recording of the batches that data loader workers fetch during a profile window."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import fetch as torch_fetch

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Finish, ProfileUnavailableError
from leadline.store import layout
from leadline.store.codec import LOADING, BatchEncoder
from leadline.store.documents import make_subfolder
from leadline.store.segments import Segment

_MAX_DEPTH: Final = 4
UNKNOWN: Final = -1
"""Placeholder for an unknown number; readers turn it into null."""


class FetchHooks:
    """Records each fetched batch while a profile window is open, in the training process and in its workers.

    Workers are forked or spawned long before a window opens, so they check for the folder that the window creates.
    Outside windows this check is the only cost, about a microsecond per batch.

    Args:
        profiles: The folder of the run's profiles.
    """

    def __init__(self, profiles: str, guard: Guard) -> None:
        self._profiles, self._guard = profiles, guard
        self._patches = Patches()

    def install(self) -> None:
        """Install the patches."""
        for kind in (torch_fetch._MapDatasetFetcher, torch_fetch._IterableDatasetFetcher):
            self._patches.replace(kind, "fetch", self._make_fetch)

    def uninstall(self) -> None:
        """Remove the patches."""
        self._patches.restore()

    def _make_fetch(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        guard, window_folder, record = self._guard, self._window_folder, _record_fetch

        def fetch(fetcher: Any, index: Any) -> Any:
            folder = guard.call(window_folder)
            if folder is None:
                return original(fetcher, index)
            start_ns = time.time_ns()
            data = original(fetcher, index)
            guard.run(record, folder, start_ns, data, index)
            return data

        return hide_from_dynamo(fetch)

    def _window_folder(self) -> str | None:
        """Return the folder of the open profile window; None: no window is open."""
        trainer = os.getpid() if get_worker_info() is None else os.getppid()
        folder = os.path.join(self._profiles, layout.loading_marker(trainer))
        return folder if os.path.isdir(folder) else None


def _record_fetch(folder: str, start_ns: int, data: Any, index: Any) -> None:
    info = get_worker_info()
    event = {
        "event": "fetch",
        "step": UNKNOWN,
        "worker_id": UNKNOWN if info is None else info.id,
        "num_workers": 0 if info is None else info.num_workers,
        "start_ns": start_ns,
        "duration_ns": time.time_ns() - start_ns,
        "bytes": _size(data),
        "batch_size": len(index) if hasattr(index, "__len__") else 1,
        "ready": UNKNOWN,
        "pid": os.getpid(),
    }
    try:
        with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a") as file:
            file.write(json.dumps(event) + "\n")
    except FileNotFoundError:
        return  # the window was closed in the meantime


class LoadingRecording:
    """See ``leadline.instrumentation.recording.Recording``; also records waits for batches and iterator creation."""

    def __init__(self, profiles: str, guard: Guard) -> None:
        self.notes: list[str] = []
        self._profiles, self._guard, self._pid = profiles, guard, os.getpid()
        self._folder = os.path.join(profiles, layout.loading_marker(self._pid))
        self._patches = Patches()
        self._events: list[dict[str, int | str]] = []
        self._step = 0

    def begin(self, step: int) -> None:
        self._step = step
        try:
            make_subfolder(self._profiles)
            make_subfolder(self._folder)
        except OSError as error:
            raise ProfileUnavailableError(f"cannot create {self._folder}: {error.strerror}") from None
        for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
            self._patches.replace(kind, "_next_data", self._make_wait, is_optional=True)
            self._patches.replace(kind, "__init__", self._make_init)

    def enter(self, step: int, ended: str) -> None:
        self._step = step

    def mark(self, phase: str) -> None: ...

    def end(self, step: int, ended: str) -> Finish:
        self._patches.restore()
        if os.getpid() != self._pid:
            return lambda folder: ()
        closed = f"{self._folder}-closed"
        os.rename(self._folder, closed)
        events, self._events = self._events, []
        return lambda folder: _write(folder, closed, events)

    def _make_wait(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        guard, record = self._guard, self._record

        def _next_data(iterator: Any) -> Any:
            start_ns, ready = time.time_ns(), _ready_batches(iterator)
            data = original(iterator)
            guard.run(record, "wait", iterator, start_ns, data, ready)
            return data

        return hide_from_dynamo(_next_data)

    def _make_init(self, original: Callable[..., None]) -> Callable[..., None]:
        guard, record = self._guard, self._record

        def __init__(iterator: Any, loader: Any) -> None:
            start_ns = time.time_ns()
            original(iterator, loader)
            guard.run(record, "make_iterator", iterator, start_ns, None, UNKNOWN)

        return hide_from_dynamo(__init__)

    def _record(self, event: str, iterator: Any, start_ns: int, data: Any, ready: int) -> None:
        self._events.append(
            {
                "event": event,
                "step": self._step,
                "worker_id": UNKNOWN,
                "num_workers": int(iterator._num_workers),
                "start_ns": start_ns,
                "duration_ns": time.time_ns() - start_ns,
                "bytes": UNKNOWN if data is None else _size(data),
                "batch_size": UNKNOWN,
                "ready": ready,
                "pid": os.getpid(),
            }
        )


def _ready_batches(iterator: Any) -> int:
    """Return the number of batches that are ready in an iterator with workers."""
    stored = sum(len(entry) == 2 for entry in getattr(iterator, "_task_info", {}).values())
    queue = getattr(iterator, "_data_queue", None)
    try:
        return stored + queue.qsize() if queue is not None else UNKNOWN
    except NotImplementedError:  # macOS
        return UNKNOWN


def _size(data: Any, depth: int = 0) -> int:
    """Return the bytes of the tensors in a batch."""
    if isinstance(data, torch.Tensor):
        return int(data.numel() * data.element_size())
    if depth == _MAX_DEPTH:
        return 0
    if isinstance(data, Mapping):
        return sum(_size(value, depth + 1) for value in data.values())
    return sum(_size(value, depth + 1) for value in data) if isinstance(data, (list, tuple)) else 0


def _write(folder: str, closed: str, events: list[dict[str, int | str]]) -> Sequence[str]:
    """Write the events of the training process and its workers as one table, ordered by start.

    Raises:
        OSError: The table could not be written.
    """
    rows = sorted([*events, *_worker_events(closed)], key=lambda event: int(event["start_ns"]))
    segment = Segment(os.path.join(folder, layout.LOADING), BatchEncoder(LOADING, {}))
    segment.append_records(0, rows)
    segment.close()
    return (layout.LOADING,)


def _worker_events(closed: str) -> Iterator[dict[str, int | str]]:
    for name in sorted(os.listdir(closed)):
        path = os.path.join(closed, name)
        with open(path) as file:
            for line in file:
                if line.endswith("\n"):  # a killed worker leaves an incomplete line
                    yield json.loads(line)
        os.unlink(path)
    os.rmdir(closed)
