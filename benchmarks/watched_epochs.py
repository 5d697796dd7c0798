"""Epochs that are trained with Leadline in the process of a benchmark, for the rows of ``frameworks.py``."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Final

import harness
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import DEFAULT_BUDGET, StandaloneRun
from leadline.training.recorder.budget import START_NS

_MOST_SECONDS: Final = 60.0
"""A preset that spends the budget of the start more slowly is measured after this time."""


class WatchedEpochs:
    """Epochs that are trained with a preset, each in a run of its own, and a count of the values on disk afterwards.

    Args:
        preset: Leadline's preset.

    Attributes:
        expected: The number of losses, weights and gradients of all runs, at least one of each kind.
        found: How many of these have values.
    """

    def __init__(self, preset: str) -> None:
        self._preset = preset
        self.expected = self.found = 0
        self._first: list[float] = []
        """The seconds by which the first epoch of each run is longer than its second one."""
        self._first_bytes: list[int] = []
        """The growth of the peak memory in the first two epochs."""
        self._second: list[float] = []

    def seconds(self, make_epoch: Callable[[], Callable[[], float]]) -> float:
        """Return the seconds of an epoch once the budget of the start is spent, in which a short run is captured whole.

        Args:
            make_epoch: Called once the run is open; returns what trains one epoch and returns its seconds.
        """
        folder = tempfile.mkdtemp(prefix="leadline-epochs-")
        try:
            standalone = StandaloneRun(out=folder, name="run", preset=self._preset, capture=(), budget=DEFAULT_BUDGET)
            peak, began = _peak_bytes(), time.perf_counter()
            epoch = make_epoch()
            first, second = epoch(), epoch()
            self._first.append(first - second)
            self._second.append(second)
            self._first_bytes.append(_peak_bytes() - peak)
            assert standalone.session is not None
            cost = standalone.session.recorder.cost
            while cost.own_ns < START_NS and time.perf_counter() - began < _MOST_SECONDS:
                epoch()
            seconds = epoch()
            standalone.close()
            self._count(standalone.run)
            return seconds
        finally:
            shutil.rmtree(folder)

    def _count(self, path: str) -> None:
        run = leadline.open_run(path)
        for collection in ("losses", "weights", "gradients"):
            names = run.tensor_names(collection=collection)
            self.expected += max(1, len(names))
            self.found += sum(bool(run.tensor(name).steps()) for name in names)

    def note(self, bare: float) -> str:
        """Return a remark on the first two epochs; empty if none was trained.

        Args:
            bare: The seconds of an epoch without Leadline.
        """
        if not self._first:
            return ""
        peak = max(self._first_bytes) / 2**20
        return (
            f"; first captures {np.median(self._first):.1f} s, peak memory + {peak:.0f} MiB; "
            f"second epoch {np.median(self._second) / bare:.2f}x"
        )


def measure(
    key: str,
    name: str,
    limit: Limit | None,
    epochs: WatchedEpochs,
    bare: Callable[[], float],
    watched: Callable[[], float],
    *,
    rounds: int,
    steps: int,
) -> Row:
    """Return the row of epochs that are trained in turn without and with Leadline, or with a peer.

    Args:
        bare: Trains an epoch and returns its seconds.
        steps: The number of steps of an epoch.
    """

    def report_pair(index: int, before: float, after: float) -> None:
        harness.progress(f"  {key} {index + 1}/{rounds}: {before:.2f} s bare, {after:.2f} s")

    pairs = harness.pairs(bare, watched, count=rounds, on_pair=report_pair)
    ratios = tuple(after / before for before, after in pairs)
    seconds = float(np.median([before for before, _ in pairs]))
    note = f"{1000 * seconds / steps:.1f} ms per step bare{epochs.note(seconds)}"
    asked, found = (epochs.expected, epochs.found) if epochs.expected else (None, None)
    return Row(name, "x", harness.spread(ratios), limit, asked, found, note, ratios)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
