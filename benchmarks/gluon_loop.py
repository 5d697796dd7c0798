"""The rows of ``frameworks.py`` for MXNet: a loop with a trainer of Gluon, bare and with Leadline.

One model of 2.1 million parameters is trained on in one process. A block is one epoch; with Leadline a run is opened
and an epoch is trained before it, so that the dense captures of the first steps are not part of the ratio. The note
has the ratio of the processor times, too, in which other processes have no part.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import harness
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import DEFAULT_BUDGET, StandaloneRun

STEPS: Final = 100
"""Steps of an epoch; the preset standard captures two of them."""
BATCH: Final = 256
UNITS: Final = 1024
FEW_UNITS: Final = 64
"""Makes steps so short that the time of each call is visible."""


@dataclass(frozen=True, slots=True)
class GluonCase:
    """A row."""

    key: str
    name: str
    preset: str = ""
    """Leadline's preset; empty: bare."""
    units: int = UNITS
    limit: Limit | None = None


CASES: Final = (
    GluonCase("mxnet-noise", "MXNet, bare against itself"),
    GluonCase("mxnet-standard", "MXNet, preset standard", preset="standard", limit=Limit(1.05)),
    GluonCase("mxnet-light", "MXNet, preset light", preset="light", limit=Limit(1.05)),
    GluonCase("mxnet-few", "MXNet, preset light, 10,000 parameters", preset="light", units=FEW_UNITS),
)


class Training:
    """One model with its data."""

    def __init__(self, units: int) -> None:
        import mxnet as mx
        from mxnet import gluon
        from mxnet.gluon import nn

        generator = np.random.default_rng(0)
        self._x = mx.nd.array(generator.normal(size=(BATCH, units)))
        self._y = mx.nd.array(generator.integers(0, 10, BATCH))
        self._net = nn.HybridSequential()
        self._net.add(nn.Dense(units, activation="relu"), nn.Dense(units, activation="relu"), nn.Dense(10))
        self._net.initialize(mx.init.Xavier())
        self._net.hybridize()
        self._loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self._trainer = gluon.Trainer(self._net.collect_params(), "adam")
        self.fit()

    def fit(self) -> tuple[float, float]:
        """Train one epoch; return its seconds, and those of the processors."""
        import mxnet as mx
        from mxnet import autograd

        began, began_cpu = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            with autograd.record():
                loss = self._loss(self._net(self._x), self._y)
            loss.backward()
            self._trainer.step(BATCH)
        mx.nd.waitall()
        return time.perf_counter() - began, time.process_time() - began_cpu


class GluonBlocks:
    """Epochs without and with Leadline, and a count of the values on disk afterwards."""

    def __init__(self, case: GluonCase, training: Training) -> None:
        self._case, self._training = case, training
        self.found = self.expected = 0
        self.cpu_seconds: list[float] = []
        """The processor time of each block."""

    def bare(self) -> float:
        seconds, cpu_seconds = self._training.fit()
        self.cpu_seconds.append(cpu_seconds)
        return seconds

    def watched(self) -> float:
        if not self._case.preset:
            return self.bare()
        folder = tempfile.mkdtemp(prefix="leadline-gluon-")
        try:
            standalone = StandaloneRun(
                out=folder, name="run", preset=self._case.preset, capture=(), budget=DEFAULT_BUDGET
            )
            self._training.fit()
            seconds = self.bare()
            standalone.close()
            run = leadline.open_run(standalone.run)
            for collection in ("losses", "weights", "gradients"):
                names = run.tensor_names(collection=collection)
                self.expected += max(1, len(names))
                self.found += sum(bool(run.tensor(name).steps()) for name in names)
            return seconds
        finally:
            shutil.rmtree(folder)


def measure(case: GluonCase, rounds: int, training: Callable[[int], Training]) -> Row:
    """Return the row of a case.

    Args:
        training: Returns the model with layers of a number of units.
    """
    blocks = GluonBlocks(case, training(case.units))

    def report_pair(index: int, bare: float, watched: float) -> None:
        harness.progress(f"  {case.key} {index + 1}/{rounds}: {bare:.2f} s bare, {watched:.2f} s")

    def timed(block: Callable[[], float], times: list[float]) -> Callable[[], float]:
        def run() -> float:
            seconds = block()
            times.append(blocks.cpu_seconds[-1])
            return seconds

        return run

    bare_cpu: list[float] = []
    watched_cpu: list[float] = []
    pairs = harness.pairs(
        timed(blocks.bare, bare_cpu), timed(blocks.watched, watched_cpu), count=rounds, on_pair=report_pair
    )
    ratios = [watched / bare for bare, watched in pairs]
    cpu_ratios = [after / before for before, after in zip(bare_cpu[-rounds:], watched_cpu[-rounds:], strict=True)]
    bare = float(np.median([seconds for seconds, _ in pairs]))
    note = f"{1000 * bare / STEPS:.1f} ms per step bare; processor time {float(np.median(cpu_ratios)):.3f}x"
    asked, found = (blocks.expected, blocks.found) if case.preset else (None, None)
    return Row(case.name, "x", harness.spread(ratios), case.limit, asked, found, note, tuple(ratios))


def trainings() -> Callable[[int], Training]:
    """Return a function that makes one training for each number of units."""
    known: dict[int, Any] = {}

    def of(units: int) -> Training:
        if units not in known:
            known[units] = Training(units)
        return known[units]

    return of
