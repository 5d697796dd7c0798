"""The rows of ``frameworks.py`` for Keras on TensorFlow: ``fit`` bare and with Leadline, or with a peer's callback.

A model of 2.1 million parameters is trained on, with Leadline in processes of their own (see ``watched_epochs.py``),
which are this script.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import harness
import numpy as np
import watched_epochs
from harness import Limit, Row

from leadline.hook import StandaloneRun

STEPS: Final = 100
"""Steps of an epoch; the preset standard captures two of them."""
BATCH: Final = 256
UNITS: Final = 1024


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
    """One compiled model with its data.

    The data set is not tuned automatically: by chance TensorFlow's thread for that ends an epoch one second late.
    """

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import keras
        import tensorflow as tf

        generator = np.random.default_rng(0)
        x = generator.normal(size=(STEPS, BATCH, UNITS)).astype("float32")
        options = tf.data.Options()
        options.autotune.enabled = False
        data = tf.data.Dataset.from_tensor_slices((x, generator.integers(0, 10, (STEPS, BATCH))))
        self._data = data.with_options(options)
        layers = [keras.layers.Dense(UNITS, activation="relu") for _ in range(2)]
        self.model = keras.Sequential([keras.Input((UNITS,)), *layers, keras.layers.Dense(10)])
        self.model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        self.fit()

    def fit(self, *callbacks: Any) -> float:
        """Train one epoch; return its seconds."""
        began = time.perf_counter()
        self.model.fit(self._data, shuffle=False, verbose=0, callbacks=list(callbacks))
        return time.perf_counter() - began


def measure(case: KerasCase, rounds: int, training: Training) -> Row:
    """Return the row of a case."""
    if case.preset:
        return watched_epochs.measure(
            case.key, case.name, case.limit, __file__, preset=case.preset, rounds=rounds, steps=STEPS
        )

    def peer() -> float:
        if case.callback is None:
            return training.fit()
        folder = tempfile.mkdtemp(prefix="leadline-keras-")
        try:
            return training.fit(case.callback(folder))
        finally:
            shutil.rmtree(folder)

    return watched_epochs.measure_peer(case.key, case.name, training.fit, peer, rounds=rounds, steps=STEPS)


def measure_idle() -> Row:
    """Return the row of the processor time that a call of a function takes longer while nothing is captured."""
    import tensorflow as tf

    @tf.function
    def step(value: Any) -> Any:
        return value + 1

    value = tf.constant(1.0)

    def calls() -> float:
        began = time.thread_time_ns()
        for _ in range(2000):
            step(value)
        return (time.thread_time_ns() - began) / 2000 / 1000

    def watched() -> float:
        folder = tempfile.mkdtemp(prefix="leadline-keras-")
        standalone = StandaloneRun(out=folder, name="run", preset="light", capture=())
        step(value)
        taken = calls()
        standalone.close()
        shutil.rmtree(folder)
        return taken

    step(value)
    extra = [watched - bare for bare, watched in harness.pairs(calls, watched, count=20)]
    return Row("call of a function that does not train", "us", harness.spread(extra), Limit(5.0), values=tuple(extra))


if __name__ == "__main__":
    training = Training()
    watched_epochs.answer(lambda: training.fit, *sys.argv[1:])
