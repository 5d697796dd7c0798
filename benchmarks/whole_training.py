"""A training whose steps are compared with a fixed piece of work beside them; ``whole_runs.py`` runs it as a process.

Usage: whole_training.py KIND STEPS RESULT. The piece of work, some Python and numpy, is repeated every few steps: times
as multiples of it hardly depend on the speed of the machine at that moment. RESULT is a JSON file with the time of the
training's thread, of all threads and on the clock for each step, in multiples of the nearest pieces of work.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_AROUND = 5
"""Pieces of work before and after a step, of which the median counts."""

Step = Callable[[], object]


def chain_step(modules: int, width: int = 32, batch: int = 16) -> Step:
    """Return a step of a chain of small layers."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    inner = [layer for _ in range(modules // 2) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*inner, nn.Linear(width, 4))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    inputs, labels, loss = torch.randn(batch, width), torch.randint(0, 4, (batch,)), nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()
        optimizer.step()

    return step


def transformer_step(*, is_compiled: bool = False) -> Step:
    """Return a step of a small transformer."""
    import torch
    from workload import BATCH, LENGTH, ByteEncoder

    torch.manual_seed(0)
    model = ByteEncoder(width=64 if is_compiled else 256, layers=2 if is_compiled else 6)
    forward = torch.compile(model) if is_compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    tokens = torch.randint(0, 256, (BATCH, LENGTH + 1))

    def step() -> None:
        optimizer.zero_grad()
        out = forward(tokens[:, :-1])
        torch.nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    return step


def keras_step() -> Step:
    """Return a step of a small Keras model."""
    import keras

    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(32, activation="relu") for _ in range(10)]
    model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(4)])
    model.compile(keras.optimizers.SGD(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = np.random.default_rng(0)
    inputs, labels = data.normal(size=(16, 32)).astype("float32"), data.integers(0, 4, 16)
    return lambda: model.train_on_batch(inputs, labels)


def jax_step() -> Step:
    """Return a step of a chain of small layers in JAX."""
    import jax
    import jax.numpy as jnp
    import optax

    generator = np.random.default_rng(0)
    parameters = {f"layer{at}": jnp.asarray(generator.normal(size=(32, 32)) / 6) for at in range(20)}
    optimizer = optax.sgd(1e-3)
    inputs, labels = jnp.asarray(generator.normal(size=(16, 32))), jnp.asarray(generator.integers(0, 32, 16))

    def loss(parameters, inputs, labels):  # type: ignore[no-untyped-def]
        for weights in parameters.values():
            inputs = jax.nn.relu(inputs @ weights)
        return optax.softmax_cross_entropy_with_integer_labels(inputs, labels).mean()

    @jax.jit
    def update(parameters, state, inputs, labels):  # type: ignore[no-untyped-def]
        value, gradients = jax.value_and_grad(loss)(parameters, inputs, labels)
        changes, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, changes), state, value

    carried = [parameters, optimizer.init(parameters)]

    def step() -> None:
        *carried[:], value = update(*carried, inputs, labels)
        value.block_until_ready()

    return step


def tensorflow_step() -> Step:
    """Return a step of a chain of small layers in TensorFlow, with the update by hand in a ``tf.function``."""
    import tensorflow as tf

    tf.random.set_seed(0)
    weights = [tf.Variable(tf.random.normal((32, 32)) / 6) for _ in range(20)]
    generator = np.random.default_rng(0)
    inputs = tf.constant(generator.normal(size=(16, 32)).astype("float32"))
    labels = tf.constant(generator.integers(0, 32, 16))

    @tf.function
    def update(inputs, labels):  # type: ignore[no-untyped-def]
        with tf.GradientTape() as tape:
            for weight in weights:
                inputs = tf.nn.relu(inputs @ weight)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, inputs))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-3 * gradient)
        return loss

    return lambda: update(inputs, labels)


def gluon_step() -> Step:
    """Return a step of a chain of small layers in MXNet."""
    import mxnet as mx
    from mxnet import autograd, gluon

    mx.random.seed(0)
    model = gluon.nn.HybridSequential()
    for _ in range(20):
        model.add(gluon.nn.Dense(32, activation="relu"))
    model.add(gluon.nn.Dense(4))
    model.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 1e-3})
    generator, loss = np.random.default_rng(0), gluon.loss.SoftmaxCrossEntropyLoss()
    inputs, labels = mx.nd.array(generator.normal(size=(16, 32))), mx.nd.array(generator.integers(0, 4, 16))

    def step() -> None:
        with autograd.record():
            value = loss(model(inputs), labels)
        value.backward()
        trainer.step(16)
        value.wait_to_read()

    return step


def boosted_data() -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels of a boosted model."""
    samples = np.random.default_rng(0).normal(size=(20_000, 30)).astype(np.float32)
    return samples, (samples[:, 0] + samples[:, 1] ** 2 > 1).astype(int)


def xgboost_step() -> Step:
    """Return a round of XGBoost."""
    import xgboost

    data = xgboost.DMatrix(*boosted_data())
    booster = xgboost.Booster({"objective": "binary:logistic", "nthread": 1}, [data])
    rounds = itertools.count()
    return lambda: booster.update(data, next(rounds))


def lightgbm_step() -> Step:
    """Return a round of LightGBM."""
    import lightgbm

    settings = {"objective": "binary", "num_threads": 1, "verbose": -1}
    return lightgbm.Booster(settings, lightgbm.Dataset(*boosted_data())).update


KINDS: dict[str, Callable[[], Step]] = {
    "3 modules": lambda: chain_step(3),
    "101 layers": lambda: chain_step(201),
    "transformer": transformer_step,
    "compiled": lambda: transformer_step(is_compiled=True),
    "keras": keras_step,
    "jax": jax_step,
    "tensorflow": tensorflow_step,
    "mxnet": gluon_step,
    "xgboost": xgboost_step,
    "lightgbm": lightgbm_step,
}


def piece_of_work() -> None:
    """Compute something that takes a fixed amount of work, about a millisecond."""
    total, matrix = 0, _MATRIX
    for number in range(6000):
        total += number * number % 7
    for _ in range(60):
        matrix = matrix @ _MATRIX
        matrix = matrix / matrix.max()


_MATRIX = np.random.default_rng(0).random((48, 48), dtype=np.float32)


def main() -> None:
    kind, steps, result = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    step = KINDS[kind]()
    every = max(1, min(10, steps // 20))
    taken: list[tuple[int, int, int]] = []
    pieces: list[int] = []
    for at in range(steps):
        if at % every == 0:
            began = time.thread_time_ns()
            piece_of_work()
            pieces.append(time.thread_time_ns() - began)
        began_at = time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()
        step()
        ended_at = time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()
        taken.append((ended_at[0] - began_at[0], ended_at[1] - began_at[1], ended_at[2] - began_at[2]))
    ratios = []
    for at, times in enumerate(taken):
        piece = statistics.median(pieces[max(0, at // every - _AROUND) : at // every + _AROUND])
        ratios.append([round(nanoseconds / piece, 4) for nanoseconds in times])
    milliseconds = statistics.median(wall for *_, wall in taken) / 1e6
    result.write_text(json.dumps({"steps": ratios, "step_ms": milliseconds}))


if __name__ == "__main__":
    main()
