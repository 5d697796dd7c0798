"""A training with one step within which the script calls its model again and again, outside of compiled functions.

Usage: long_steps_elsewhere.py tensorflow|jax|mxnet PASSES; prints the bytes by which the process has grown at most in
that step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"], os.environ["CUDA_VISIBLE_DEVICES"] = "3", "-1"
FRAMEWORK, PASSES = sys.argv[1], int(sys.argv[2])
ROWS, WIDTH, STEPS, LONG_STEP = 500, 4000, 10, 6


def tensorflow() -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    import keras
    import tensorflow as tf

    layers = [keras.Input((4,)), keras.layers.Dense(WIDTH, activation="relu"), keras.layers.Dense(3)]
    model, optimizer = keras.Sequential(layers), keras.optimizers.SGD(0.01)
    measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    labels = tf.zeros(ROWS, tf.int64)

    def loss() -> object:
        return measure(labels, model(tf.random.normal((ROWS, 4))))

    def gradients() -> object:
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(value, model.trainable_variables)

    return loss, gradients, lambda: optimizer.apply_gradients(zip(gradients(), model.trainable_variables, strict=True))


def jax() -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    import jax
    import optax
    from jax import numpy as jnp

    key = jax.random.key(0)
    params = {"first": jax.random.normal(key, (4, WIDTH)) * 0.1, "last": jax.random.normal(key, (WIDTH, 3)) * 0.1}
    optimizer = optax.sgd(0.01)
    state = optimizer.init(params)
    labels, x = jnp.zeros(ROWS, jnp.int32), jax.random.normal(key, (ROWS, 4))

    def measure(given: dict[str, jax.Array]) -> jax.Array:
        outputs = jax.nn.relu(x @ given["first"]) @ given["last"]
        return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()

    def gradients() -> object:
        return jax.value_and_grad(measure)(params)[1]

    def update() -> None:
        nonlocal params, state
        changes, state = optimizer.update(gradients(), state)
        params = optax.apply_updates(params, changes)

    return lambda: measure(params).block_until_ready(), gradients, update


def mxnet() -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    import mxnet as mx
    from mxnet import autograd, gluon

    model = gluon.nn.HybridSequential()
    model.add(gluon.nn.Dense(WIDTH, activation="relu"), gluon.nn.Dense(3))
    model.initialize()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.01})
    measure, labels = gluon.loss.SoftmaxCrossEntropyLoss(), mx.nd.zeros(ROWS)

    def loss() -> object:
        with autograd.train_mode():
            value = measure(model(mx.nd.random.normal(shape=(ROWS, 4))), labels)
        value.wait_to_read()
        return value

    def recorded() -> object:
        with autograd.record():
            value = measure(model(mx.nd.random.normal(shape=(ROWS, 4))), labels)
        value.wait_to_read()
        return value

    def update() -> None:
        recorded().backward()
        trainer.step(ROWS)

    return loss, recorded, update


def peak_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


evaluate, differentiate, update = {"tensorflow": tensorflow, "jax": jax, "mxnet": mxnet}[FRAMEWORK]()
for step in range(STEPS):
    if step == LONG_STEP:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = peak_bytes()
        for _ in range(PASSES):
            evaluate()
        for _ in range(PASSES):
            differentiate()
        print("grown", peak_bytes() - before)
    update()
