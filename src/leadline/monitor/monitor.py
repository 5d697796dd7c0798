"""The monitor: samples all metrics at a fixed interval and stores them."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from leadline.config.secrets import scrub
from leadline.monitor.sampler import Sampler
from leadline.records.documents import DroppedSamples
from leadline.records.gpu_description import GpuDescription
from leadline.records.metric import INTERVALS_MS, NOT_SAMPLED, Channel
from leadline.records.request import Answer, SetInterval
from leadline.store import layout
from leadline.store.codec import SYSTEM, float64_buffer, int64_buffer, system_metadata
from leadline.store.segments import Segment, SegmentFolder

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 5.0
_MIN_FREE_BYTES: Final = 1 << 20
"""Free space required to open another segment after a failed write, so that no empty segments accumulate."""
_JOIN_SECONDS: Final = 2.0


class Monitor:
    """Samples in a thread of its own, so that a hanging driver blocks nothing else.

    The samplers are created in that thread too, so that the job does not wait while drivers are loaded.
    """

    def __init__(
        self,
        run: str,
        node: str,
        make_samplers: Callable[[], Sequence[Sampler]],
        *,
        interval_seconds: float = 0.5,
        first_sequence: int = 0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """
        Args:
            interval_seconds: The sampling interval; infinite: nothing is sampled.
            first_sequence: The number of the first batch: an earlier incarnation of the run has written those before.
        """
        self._make_samplers, self._interval = make_samplers, interval_seconds
        self._samplers: tuple[Sampler, ...] | None = None
        self._clock, self._wall_clock = clock, wall_clock
        self._store = _SystemStore(run, node, first_sequence)
        self._failures: dict[str, str] = {}
        self._ending = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to sample."""
        self._thread = threading.Thread(target=self._loop, name="leadline-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample, unless nothing is sampled, and stop; a hanging sampler is abandoned."""
        self._ending.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    @property
    def interval_seconds(self) -> float:
        """The sampling interval."""
        return self._interval

    def set_interval(self, seconds: float) -> None:
        """Change the sampling interval; infinite: no longer sample."""
        self._interval = seconds
        self._woken.set()

    def _loop(self) -> None:
        next_at = self._clock()
        while True:
            pause = max(0.0, next_at - self._clock())
            if self._woken.wait(None if math.isinf(pause) else pause) and not self._ending.is_set():
                self._woken.clear()
                if self._ending.is_set():  # set between the two calls
                    self._woken.set()
                if math.isinf(next_at) and not math.isinf(self._interval):  # the pause is in no rate
                    self._try(lambda: self._read_all(self._clock()))
                next_at = math.inf if math.isinf(self._interval) else min(next_at, self._clock() + self._interval)
                continue
            is_last = self._ending.is_set()
            if not math.isinf(self._interval):
                self._try(self.sample)
            if is_last:
                break
            # missed samples are not made up for
            next_at += self._interval * (1 + max(0, (self._clock() - next_at) // self._interval))
        self._store.close()

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the sampler loop reports every error and continues
            self._fail("monitor", error)

    def sample(self) -> None:
        """Take and store one sample of all metrics."""
        now, time_ns = self._clock(), self._wall_clock()
        channels, values = self._read_all(now)
        self._store.append(channels, values, time_ns, now)

    def _read_all(self, now: float) -> tuple[tuple[Channel, ...], list[float | None]]:
        channels: list[Channel] = []
        values: list[float | None] = []
        if self._samplers is None:
            self._samplers = tuple(self._make_samplers())
        for sampler in self._samplers:
            sample = self._read(sampler, now)
            channels += sampler.channels
            values += sample if sample is not None else [None] * len(sampler.channels)
        return tuple(channels), values

    def _read(self, sampler: Sampler, now: float) -> Sequence[float | None] | None:
        try:
            return sampler.sample(now)
        except Exception as error:  # noqa: BLE001 - the sampler loop reports every error and continues
            self._fail(sampler.kind, error)
            return None

    def _fail(self, kind: str, error: Exception) -> None:
        if kind not in self._failures:
            self._failures[kind] = f"{type(error).__name__}: {scrub(str(error))}"
            _LOG.warning("sampling %s failed", kind, exc_info=error)

    def absent(self) -> dict[str, str]:
        """Return the metrics that cannot be read, with the reasons."""
        absent: dict[str, str] = {}
        for sampler in self._samplers or ():
            absent |= sampler.absent
        return absent | self._failures

    def gpus(self) -> list[GpuDescription]:
        """Return the descriptions of the sampled GPUs."""
        return [gpu for sampler in self._samplers or () for gpu in getattr(sampler, "gpus", ())]

    def dropped(self) -> DroppedSamples | None:
        """Return the count and reason of samples that could not be stored; None if all were."""
        return self._store.dropped()

    def take_warnings(self) -> list[str]:
        """Return new warnings for the user, each only once."""
        return self._store.take_warnings()


def set_interval(monitor: Monitor, request: SetInterval) -> Answer:
    """Apply a ``leadline set`` request; return the answer for its acknowledgement."""
    interval_ms = request.interval_ms
    if interval_ms not in (NOT_SAMPLED, *INTERVALS_MS):
        accepted = ", ".join(map(str, INTERVALS_MS))
        return Answer("refused", f"interval-ms must be one of {accepted}, not {interval_ms}")
    monitor.set_interval(math.inf if interval_ms == NOT_SAMPLED else interval_ms / 1000)
    return Answer()


class _SystemStore:
    """Writes samples to the segments of a node; failed writes are retried later."""

    def __init__(self, run: str, node: str, first_sequence: int) -> None:
        self._run = run
        self._folder = SegmentFolder(run, layout.SYSTEM, node)
        self._segment: Segment | None = None
        self._channels: tuple[Channel, ...] = ()
        self._sequence = first_sequence
        self._dropped_samples = 0
        self._dropped_since_ns = 0
        self._reason = ""
        self._retry_at = -math.inf
        self._warnings: list[str] = []

    def append(self, channels: tuple[Channel, ...], values: Sequence[float | None], time_ns: int, now: float) -> None:
        present = [(i, value) for i, value in enumerate(values) if value is not None and math.isfinite(value)]
        if not present:
            return
        columns = {
            "time_ns": int64_buffer([time_ns] * len(present)),
            "channel": int64_buffer([index for index, _ in present]),
            "value": float64_buffer([value for _, value in present]),
        }
        try:
            self._open(channels, now).append(self._sequence, len(present), columns)
        except OSError as error:
            self._drop(error, time_ns, now)
        else:
            self._sequence += 1

    def _open(self, channels: tuple[Channel, ...], now: float) -> Segment:
        if self._segment is not None and self._segment.is_open:
            if channels == self._channels:
                return self._segment
            self._segment.close()
        if self._dropped_samples:
            self._check_free_space(now)
        self._segment = self._folder.open(SYSTEM, system_metadata(channels))
        self._channels = channels
        return self._segment

    def _check_free_space(self, now: float) -> None:
        if now < self._retry_at:
            raise OSError(0, self._reason)
        if not layout.is_run(self._run):
            raise FileNotFoundError(2, "the run directory no longer exists")
        stats = os.statvfs(self._run)
        if stats.f_bavail * stats.f_frsize < _MIN_FREE_BYTES:
            raise OSError(28, os.strerror(28))

    def _drop(self, error: OSError, time_ns: int, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = now + _RETRY_SECONDS
        if not self._dropped_samples:
            self._dropped_since_ns = time_ns
            self._reason = error.strerror or str(error)
            self._warnings.append(
                f"system metrics cannot be stored ({self._reason}); retrying every {_RETRY_SECONDS:.0f} s"
            )
        self._dropped_samples += 1

    def dropped(self) -> DroppedSamples | None:
        if not self._dropped_samples:
            return None
        return DroppedSamples(self._dropped_samples, self._dropped_since_ns, self._reason)

    def take_warnings(self) -> list[str]:
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
