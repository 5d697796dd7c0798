"""The rows of ``frameworks.py`` for Keras on TensorFlow: ``fit`` bare and with Leadline, or with a peer's callback.

One model of 2.1 million parameters is trained on in one process. A block is one epoch. With Leadline a run is opened,
and it is trained on for 15 s before: until then the budget grants more, and the first capture traces the function once
more. The note has the second epoch, and what the first one takes beyond it.
"""

from __future__ import annotations

import os
import resource
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
from leadline.training.recorder.budget import START_NS, START_SHARE

STEPS: Final = 100
"""Steps of an epoch; the preset standard captures two of them."""
BATCH: Final = 256
UNITS: Final = 1024
_START_SECONDS: Final = START_NS / START_SHARE / 1e9
"""The time in which the budget may grant the share of the start."""


@dataclass(frozen=True, slots=True)
class KerasCase:
    """A row."""

    key: str
    name: str
    preset: str = ""
    """Leadline's preset; empty for a peer."""
    callback: Callable[[str], Any] | None = None
    """Makes the callback of a peer, which writes into a folder."""
    limit: Limit | None = None


def tensorboard(folder: str) -> Any:
    import keras

    return keras.callbacks.TensorBoard(folder, histogram_freq=1, update_freq=1)


def wandb(folder: str) -> Any:
    import wandb as library
    from wandb.integration.keras import WandbMetricsLogger

    library.init(mode="offline", dir=folder)
    return WandbMetricsLogger(log_freq=1)


CASES: Final = (
    KerasCase("keras-noise", "Keras, bare against itself"),
    KerasCase("keras-standard", "Keras, preset standard", preset="standard", limit=Limit(1.03)),
    KerasCase("keras-light", "Keras, preset light", preset="light", limit=Limit(1.02)),
    KerasCase("keras-tensorboard", "Keras, TensorBoard(histogram_freq=1)", callback=tensorboard),
    KerasCase("keras-wandb", "Keras, WandbMetricsLogger", callback=wandb),
)


class Training:
    """One compiled model with its data."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import keras

        generator = np.random.default_rng(0)
        self._x = generator.normal(size=(BATCH * STEPS, UNITS)).astype("float32")
        self._y = generator.integers(0, 10, BATCH * STEPS)
        layers = [keras.layers.Dense(UNITS, activation="relu") for _ in range(2)]
        self.model = keras.Sequential([keras.Input((UNITS,)), *layers, keras.layers.Dense(10)])
        self.model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        self.fit()

    def fit(self, *callbacks: Any) -> float:
        """Train one epoch; return its seconds."""
        began = time.perf_counter()
        self.model.fit(self._x, self._y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks))
        return time.perf_counter() - began


class KerasBlocks:
    """Epochs without and with Leadline or a peer, and a count of the values on disk afterwards."""

    def __init__(self, case: KerasCase, training: Training) -> None:
        self._case, self._training = case, training
        self.found = self.expected = 0
        self.first_seconds: list[float] = []
        """The seconds by which an epoch with the first captures is longer than the next one."""
        self.first_bytes: list[int] = []
        """The growth of the peak memory in that epoch."""
        self.second_seconds: list[float] = []

    def bare(self) -> float:
        return self._training.fit()

    def watched(self) -> float:
        folder = tempfile.mkdtemp(prefix="leadline-keras-")
        try:
            return self._with_leadline(folder) if self._case.preset else self._with_callback(folder)
        finally:
            shutil.rmtree(folder)

    def _with_callback(self, folder: str) -> float:
        return self._training.fit(*([self._case.callback(folder)] if self._case.callback is not None else []))

    def _with_leadline(self, folder: str) -> float:
        standalone = StandaloneRun(out=folder, name="run", preset=self._case.preset, capture=(), budget=DEFAULT_BUDGET)
        peak = _peak_bytes()
        began = time.perf_counter()
        first, second = self._training.fit(), self._training.fit()
        self.first_seconds.append(first - second)
        self.second_seconds.append(second)
        self.first_bytes.append(_peak_bytes() - peak)
        while time.perf_counter() - began < _START_SECONDS:
            self._training.fit()
        seconds = self._training.fit()
        standalone.close()
        run = leadline.open_run(standalone.run)
        for collection in ("losses", "weights", "gradients"):
            names = run.tensor_names(collection=collection)
            self.expected += max(1, len(names))
            self.found += sum(bool(run.tensor(name).steps()) for name in names)
        return seconds


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(case: KerasCase, rounds: int, training: Training) -> Row:
    """Return the row of a case."""
    blocks = KerasBlocks(case, training)

    def report_pair(index: int, bare: float, watched: float) -> None:
        harness.progress(f"  {case.key} {index + 1}/{rounds}: {bare:.2f} s bare, {watched:.2f} s")

    measured = harness.pairs(blocks.bare, blocks.watched, count=rounds, on_pair=report_pair)
    ratios = [watched / bare for bare, watched in measured]
    bare = float(np.median([seconds for seconds, _ in measured]))
    note = f"{1000 * bare / STEPS:.1f} ms per step bare"
    if blocks.first_seconds:
        peak = max(blocks.first_bytes) / 2**20
        second = np.median(blocks.second_seconds) / bare
        note += f"; first captures {np.median(blocks.first_seconds):.1f} s, peak memory + {peak:.0f} MiB"
        note += f"; second epoch {second:.2f}x"
    asked, found = (blocks.expected, blocks.found) if case.preset else (None, None)
    return Row(case.name, "x", harness.spread(ratios), case.limit, asked, found, note, tuple(ratios))


def measure_idle() -> Row:
    """Return the row of the time that a call of a function takes longer while nothing is captured."""
    import tensorflow as tf

    @tf.function
    def step(value: Any) -> Any:
        return value + 1

    value = tf.constant(1.0)

    def calls() -> float:
        return harness.elapsed_seconds(lambda: [step(value) for _ in range(2000)]) / 2000 * 1e6

    def watched() -> float:
        folder = tempfile.mkdtemp(prefix="leadline-keras-")
        standalone = StandaloneRun(out=folder, name="run", preset="light", capture=(), budget=DEFAULT_BUDGET)
        step(value)
        taken = calls()
        standalone.close()
        shutil.rmtree(folder)
        return taken

    step(value)
    extra = [watched - bare for bare, watched in harness.pairs(calls, watched, count=20)]
    return Row("call of a function that does not train", "us", harness.spread(extra), Limit(5.0), values=tuple(extra))
