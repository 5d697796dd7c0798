"""The rows of ``frameworks.py`` for MXNet: a loop with a trainer of Gluon, bare and with Leadline.

A model of 2.1 million parameters is trained on, with Leadline in processes of their own (see ``watched_epochs.py``),
which are this script.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import watched_epochs
from harness import Limit, Row

STEPS: Final = 100
"""Steps of an epoch; the preset standard captures two of them."""
BATCH: Final = 256
UNITS: Final = 1024
FEW_UNITS: Final = 64
"""Makes steps so short that the time of each call is visible."""
METRIC: Final = "metric"
"""The script updates a metric at each batch, as the examples of MXNet do, and so waits for the output of the model."""
NO_METRIC: Final = "no-metric"
"""The script reads nothing during an epoch."""


@dataclass(frozen=True, slots=True)
class GluonCase:
    """A row."""

    key: str
    name: str
    preset: str = ""
    """Leadline's preset; empty: bare."""
    units: int = UNITS
    metric: str = METRIC
    limit: Limit | None = None


CASES: Final = (
    GluonCase("mxnet-noise", "MXNet, bare against itself"),
    GluonCase("mxnet-standard", "MXNet, preset standard", preset="standard", limit=Limit(1.05)),
    GluonCase("mxnet-unread", "MXNet, preset standard, script reads nothing", preset="standard", metric=NO_METRIC),
    GluonCase("mxnet-light", "MXNet, preset light", preset="light", limit=Limit(1.05)),
    GluonCase("mxnet-few", "MXNet, preset light, 10,000 parameters", preset="light", units=FEW_UNITS),
)


class Training:
    """One model with its data.

    Args:
        units: Units of a layer.
        metric: ``METRIC`` or ``NO_METRIC``.
    """

    def __init__(self, units: int, metric: str) -> None:
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
        self._metric = mx.metric.Accuracy() if metric == METRIC else None
        self.fit()

    def fit(self) -> float:
        """Train one epoch; return its seconds."""
        import mxnet as mx
        from mxnet import autograd

        began = time.perf_counter()
        for _ in range(STEPS):
            with autograd.record():
                output = self._net(self._x)
                loss = self._loss(output, self._y)
            loss.backward()
            self._trainer.step(BATCH)
            if self._metric is not None:
                self._metric.update([self._y], [output])
        mx.nd.waitall()
        return time.perf_counter() - began


def measure(case: GluonCase, rounds: int) -> Row:
    """Return the row of a case."""
    if case.preset:
        script = (__file__, str(case.units), case.metric)
        return watched_epochs.measure(
            case.key, case.name, case.limit, *script, preset=case.preset, rounds=rounds, steps=STEPS
        )
    fit = Training(case.units, case.metric).fit
    return watched_epochs.measure_peer(case.key, case.name, fit, fit, rounds=rounds, steps=STEPS)


if __name__ == "__main__":
    training = Training(int(sys.argv[1]), sys.argv[2])
    watched_epochs.answer(lambda: training.fit, *sys.argv[3:])
