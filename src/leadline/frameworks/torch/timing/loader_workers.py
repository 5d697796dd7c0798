"""What the workers of PyTorch's data loaders do, batch by batch, while a window looks at them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import fetch as torch_fetch

from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.frameworks.torch.hooks.patches import Patches
from leadline.store import layout
from leadline.store.codec import LOADING, BatchEncoder, int64_buffer
from leadline.store.documents import make_leaf
from leadline.store.segments import Segment
from leadline.training.guard import Guard
from leadline.training.recording import Finish, ProfileUnavailableError

_DEEPEST: Final = 4
UNKNOWN: Final = -1
"""Stands for a number that nobody knows; readers make null of it."""


class Fetching:
    """Has each batch that is fetched told of while a window is open, in the training's process and in its workers.

    A worker was forked or spawned long before a window opens: it looks whether the folder is there that the window
    makes. Between windows that look is all, about a microsecond a batch.

    Args:
        profiles: The folder of the run's profiles.
    """

    def __init__(self, profiles: str, guard: Guard) -> None:
        self._profiles, self._guard = profiles, guard
        self._patches = Patches()

    def install(self) -> None:
        """Begin to look."""
        for kind in (torch_fetch._MapDatasetFetcher, torch_fetch._IterableDatasetFetcher):
            self._patches.replace(kind, "fetch", self._make_fetch)

    def uninstall(self) -> None:
        """Stop."""
        self._patches.restore()

    def _make_fetch(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        guard, place, tell = self._guard, self._place, _tell_fetch

        def fetch(fetcher: Any, index: Any) -> Any:
            folder = guard.run(place)
            if folder is None:
                return original(fetcher, index)
            begun_ns = time.time_ns()
            data = original(fetcher, index)
            guard.run(tell, folder, begun_ns, data, index)
            return data

        return hide(fetch)

    def _place(self) -> str | None:
        """Where to tell; None: nobody asks."""
        trainer = os.getpid() if get_worker_info() is None else os.getppid()
        folder = os.path.join(self._profiles, layout.loading_mark(trainer))
        return folder if os.path.isdir(folder) else None


def _tell_fetch(folder: str, begun_ns: int, data: Any, index: Any) -> None:
    info = get_worker_info()
    event = {
        "event": "fetch",
        "step": UNKNOWN,
        "worker_id": UNKNOWN if info is None else info.id,
        "num_workers": 0 if info is None else info.num_workers,
        "start_ns": begun_ns,
        "duration_ns": time.time_ns() - begun_ns,
        "bytes": _size(data),
        "batch_size": len(index) if hasattr(index, "__len__") else 1,
        "ready": UNKNOWN,
        "pid": os.getpid(),
    }
    try:
        with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a") as file:
            file.write(json.dumps(event) + "\n")
    except FileNotFoundError:
        return  # the window has closed meanwhile


class LoadingRecording:
    """See ``leadline.training.recording.Recording``; also records waits for batches and iterator creation."""

    def __init__(self, profiles: str, guard: Guard) -> None:
        self.notes: list[str] = []
        self._profiles, self._guard, self._pid = profiles, guard, os.getpid()
        self._mark = os.path.join(profiles, layout.loading_mark(self._pid))
        self._patches = Patches()
        self._events: list[dict[str, Any]] = []
        self._step = 0

    def begin(self, step: int) -> None:
        self._step = step
        try:
            make_leaf(self._profiles)
            make_leaf(self._mark)
        except OSError as error:
            raise ProfileUnavailableError(f"{self._mark} cannot be made: {error.strerror}") from None
        for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
            self._patches.replace(kind, "_next_data", self._make_wait)
            self._patches.replace(kind, "__init__", self._make_init)

    def enter(self, step: int, ended: str) -> None:
        self._step = step

    def mark(self, phase: str) -> None: ...

    def end(self, step: int, ended: str) -> Finish:
        self._patches.restore()
        if os.getpid() != self._pid:
            return lambda folder: ()
        closed = f"{self._mark}-closed"
        os.rename(self._mark, closed)
        events, self._events = self._events, []
        return lambda folder: _write(folder, closed, events)

    def _make_wait(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        guard, tell = self._guard, self._tell

        def _next_data(iterator: Any) -> Any:
            begun_ns, ready = time.time_ns(), _ready(iterator)
            data = original(iterator)
            guard.run(tell, "wait", iterator, begun_ns, data, ready)
            return data

        return hide(_next_data)

    def _make_init(self, original: Callable[..., None]) -> Callable[..., None]:
        guard, tell = self._guard, self._tell

        def __init__(iterator: Any, loader: Any) -> None:
            begun_ns = time.time_ns()
            original(iterator, loader)
            guard.run(tell, "make_iterator", iterator, begun_ns, None, UNKNOWN)

        return hide(__init__)

    def _tell(self, event: str, iterator: Any, begun_ns: int, data: Any, ready: int) -> None:
        self._events.append(
            {
                "event": event,
                "step": self._step,
                "worker_id": UNKNOWN,
                "num_workers": int(iterator._num_workers),
                "start_ns": begun_ns,
                "duration_ns": time.time_ns() - begun_ns,
                "bytes": UNKNOWN if data is None else _size(data),
                "batch_size": UNKNOWN,
                "ready": ready,
                "pid": os.getpid(),
            }
        )


def _ready(iterator: Any) -> int:
    """Batches that wait to be taken, of an iterator with workers."""
    stored = sum(len(each) == 2 for each in getattr(iterator, "_task_info", {}).values())
    queue = getattr(iterator, "_data_queue", None)
    try:
        return stored + queue.qsize() if queue is not None else UNKNOWN
    except NotImplementedError:  # macOS
        return UNKNOWN


def _size(data: Any, depth: int = 0) -> int:
    """The bytes of the tensors in a batch."""
    if isinstance(data, torch.Tensor):
        return int(data.numel() * data.element_size())
    if depth == _DEEPEST:
        return 0
    if isinstance(data, Mapping):
        return sum(_size(each, depth + 1) for each in data.values())
    return sum(_size(each, depth + 1) for each in data) if isinstance(data, (list, tuple)) else 0


def _write(folder: str, closed: str, events: list[dict[str, Any]]) -> Sequence[str]:
    """Write what the training's process and the workers told as one table, by start.

    Raises:
        OSError: It could not be written.
    """
    rows = sorted([*events, *_told(closed)], key=lambda each: int(each["start_ns"]))
    segment = Segment(os.path.join(folder, layout.LOADING), BatchEncoder(LOADING, {}))
    if rows:
        columns: dict[str, Any] = {}
        for name, kind in LOADING.columns:
            values = [row[name] for row in rows]
            columns[name] = int64_buffer(values) if kind == "int64" else values
        segment.append(0, len(rows), columns)
    segment.close()
    return (layout.LOADING,)


def _told(closed: str) -> Iterator[dict[str, Any]]:
    for name in sorted(os.listdir(closed)):
        path = os.path.join(closed, name)
        with open(path) as file:
            for line in file:
                if line.endswith("\n"):  # a worker that was killed leaves half a line
                    yield json.loads(line)
        os.unlink(path)
    os.rmdir(closed)
