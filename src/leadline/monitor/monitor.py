"""The monitor: samples everything at a fixed pace and stores it, whatever fails."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from leadline.monitor.sampler import Sampler
from leadline.records.metric import INTERVALS_MS, Channel
from leadline.records.request import Request
from leadline.store import layout
from leadline.store.codec import SYSTEM, float64_buffer, int64_buffer, system_metadata
from leadline.store.segments import Segment, SegmentFolder

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 5.0
_ROOM_BYTES: Final = 1 << 20
"""A segment is opened again only where there is so much room: a full disk would fill with empty ones."""
_JOIN_SECONDS: Final = 2.0


class Monitor:
    """Samples in a thread of its own, so that a driver that hangs holds up nothing else.

    The samplers are made there too: loading a driver takes its time, and the job should not wait for it.
    """

    def __init__(
        self,
        run: str,
        node: str,
        make_samplers: Callable[[], Sequence[Sampler]],
        *,
        interval_seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._make_samplers, self._interval = make_samplers, interval_seconds
        self._samplers: tuple[Sampler, ...] | None = None
        self._clock, self._wall_clock = clock, wall_clock
        self._store = _SystemStore(run, node)
        self._failures: dict[str, str] = {}
        self._ending = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._thread = threading.Thread(target=self._loop, name="leadline-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and end; a sampler that hangs is left behind."""
        self._ending.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    @property
    def interval_seconds(self) -> float:
        """From one sample to the next."""
        return self._interval

    def set_interval(self, seconds: float) -> None:
        """Sample at another pace from now on."""
        self._interval = seconds
        self._woken.set()

    def _loop(self) -> None:
        due = self._clock()
        while True:
            if self._woken.wait(max(0.0, due - self._clock())) and not self._ending.is_set():
                self._woken.clear()
                if self._ending.is_set():  # set between the two
                    self._woken.set()
                due = min(due, self._clock() + self._interval)
                continue
            is_last = self._ending.is_set()
            try:
                self.sample()
            except Exception as error:  # noqa: BLE001 - the sampler loop: a boundary that reports and goes on
                self._fail("monitor", error)
            if is_last:
                break
            # ticks that were missed are not made up for
            due += self._interval * (1 + max(0, (self._clock() - due) // self._interval))
        self._store.close()

    def sample(self) -> None:
        """Take one sample of everything and store it."""
        now, time_ns = self._clock(), self._wall_clock()
        channels: list[Channel] = []
        values: list[float | None] = []
        if self._samplers is None:
            self._samplers = tuple(self._make_samplers())
        for sampler in self._samplers:
            read = self._read(sampler, now)
            channels += sampler.channels
            values += read if read is not None else [None] * len(sampler.channels)
        self._store.append(tuple(channels), values, time_ns, now)

    def _read(self, sampler: Sampler, now: float) -> Sequence[float | None] | None:
        try:
            return sampler.sample(now)
        except Exception as error:  # noqa: BLE001 - the sampler loop: a boundary that reports and goes on
            self._fail(sampler.kind, error)
            return None

    def _fail(self, kind: str, error: Exception) -> None:
        if kind not in self._failures:
            self._failures[kind] = f"{type(error).__name__}: {error}"
            _LOG.warning("sampling %s failed", kind, exc_info=error)

    def absent(self) -> dict[str, str]:
        """What is not read, and why."""
        known: dict[str, str] = {}
        for sampler in self._samplers or ():
            known |= sampler.absent
        return known | self._failures

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs that are watched."""
        return [gpu for sampler in self._samplers or () for gpu in getattr(sampler, "gpus", ())]

    def lost(self) -> dict[str, Any] | None:
        """What could not be stored; None: everything was."""
        return self._store.lost()

    def describe_lost(self) -> str:
        """The same in one line."""
        return self._store.describe_lost()

    def take_notices(self) -> list[str]:
        """What somebody should be told now, each once."""
        return self._store.take_notices()


def set_interval(monitor: Monitor, request: Request) -> str:
    """Do what ``leadline set`` asks; what became of it, as an acknowledgement says it."""
    interval_ms = request.parameters.get("interval_ms")
    if interval_ms not in INTERVALS_MS:
        return f"refused: interval_ms must be one of {', '.join(map(str, INTERVALS_MS))}, not {interval_ms!r}"
    monitor.set_interval(interval_ms / 1000)
    return "taken"


class _SystemStore:
    """Writes samples to the segments of a node; a disk that refuses them is asked again later."""

    def __init__(self, run: str, node: str) -> None:
        self._run = run
        self._folder = SegmentFolder(run, layout.SYSTEM, node)
        self._segment: Segment | None = None
        self._channels: tuple[Channel, ...] = ()
        self._sequence = 0
        self._lost_samples = 0
        self._lost_since_ns = 0
        self._reason = ""
        self._retry_at = -math.inf
        self._notices: list[str] = []

    def append(self, channels: tuple[Channel, ...], values: Sequence[float | None], time_ns: int, now: float) -> None:
        read = [(i, value) for i, value in enumerate(values) if value is not None and math.isfinite(value)]
        if not read:
            return
        columns = {
            "time_ns": int64_buffer([time_ns] * len(read)),
            "channel": int64_buffer([index for index, _ in read]),
            "value": float64_buffer([value for _, value in read]),
        }
        try:
            self._open(channels, now).append(self._sequence, len(read), columns)
        except OSError as error:
            self._lose(error, time_ns, now)
        else:
            self._sequence += 1

    def _open(self, channels: tuple[Channel, ...], now: float) -> Segment:
        if self._segment is not None and self._segment.is_open:
            if channels == self._channels:
                return self._segment
            self._segment.close()
        if self._lost_samples:
            self._check_room(now)
        self._segment = self._folder.open(SYSTEM, system_metadata(channels))
        self._channels = channels
        return self._segment

    def _check_room(self, now: float) -> None:
        if now < self._retry_at:
            raise OSError(0, self._reason)
        if not layout.is_run(self._run):
            raise FileNotFoundError(2, "the run is gone")
        room = os.statvfs(self._run)
        if room.f_bavail * room.f_frsize < _ROOM_BYTES:
            raise OSError(28, os.strerror(28))

    def _lose(self, error: OSError, time_ns: int, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = now + _RETRY_SECONDS
        if not self._lost_samples:
            self._lost_since_ns = time_ns
            self._reason = error.strerror or str(error)
            self._notices.append(
                f"samples of the machine cannot be stored ({self._reason}); tried again every "
                f"{_RETRY_SECONDS:.0f} s, and counted"
            )
        self._lost_samples += 1

    def lost(self) -> dict[str, Any] | None:
        if not self._lost_samples:
            return None
        return {"samples": self._lost_samples, "since_ns": self._lost_since_ns, "reason": self._reason}

    def describe_lost(self) -> str:
        word = "sample" if self._lost_samples == 1 else "samples"
        return f"{self._lost_samples:,} {word} of the machine: {self._reason}"

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
