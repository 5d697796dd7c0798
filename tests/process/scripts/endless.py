"""Trains a small model of a framework without end, and prints the loss of each step: for a test that kills it.

Usage: endless.py {torch|tensorflow|jax|mxnet} [--steps N] [--nan-at STEP] [--pause SECONDS]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("framework")
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--nan-at", type=int, default=-1)
parser.add_argument("--pause", type=float, default=0.002)
options = parser.parse_args()
generator = np.random.default_rng(0)
X = generator.normal(size=(32, 8)).astype("float32")
Y = (X.sum(1) > 0).astype("int32")


def batch(step: int) -> np.ndarray:
    return X * np.float32("nan") if step == options.nan_at else X


def torch_steps() -> Callable[[int], float]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(number: int) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(batch(number))), torch.from_numpy(Y).long())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def tensorflow_steps() -> Callable[[int], float]:
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)])
    model.build((None, 8))
    optimizer = tf.keras.optimizers.Adam(1e-3)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return lambda number: float(train_step(tf.constant(batch(number)), tf.constant(Y)))


def jax_steps() -> Callable[[int], float]:
    import jax
    import jax.numpy as jnp
    import optax

    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    weights = {"a": jax.random.normal(keys[0], (8, 16)) * 0.3, "b": jax.random.normal(keys[1], (16, 2)) * 0.3}
    optimizer = optax.adam(1e-3)
    state = {"weights": weights, "optimizer": optimizer.init(weights)}

    def loss_of(weights, x, y):
        logits = jax.nn.relu(x @ weights["a"]) @ weights["b"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def train_step(weights, opt_state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        updates, opt_state = optimizer.update(gradients, opt_state, weights)
        return optax.apply_updates(weights, updates), opt_state, loss

    def step(number: int) -> float:
        found = train_step(state["weights"], state["optimizer"], jnp.asarray(batch(number)), jnp.asarray(Y))
        state["weights"], state["optimizer"], loss = found
        return float(loss)

    return step


def mxnet_steps() -> Callable[[int], float]:
    import mxnet as mx
    from mxnet import autograd, gluon, nd

    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="relu", in_units=8), gluon.nn.Dense(2, in_units=16))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    def step(number: int) -> float:
        with autograd.record():
            loss = loss_of(net(nd.array(batch(number))), nd.array(Y))
        loss.backward()
        trainer.step(len(X))
        return float(loss.mean().asscalar())

    return step


def losses() -> Iterator[float]:
    step = globals()[f"{options.framework}_steps"]()
    for number in range(options.steps):
        yield step(number)
        time.sleep(options.pause)


for number, loss in enumerate(losses()):
    print(number, repr(loss), flush=True)
