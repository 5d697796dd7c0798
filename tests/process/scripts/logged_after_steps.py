"""Trains six steps with the framework that is named, and logs the number of each step after it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import leadline

STEPS = 6
GENERATOR = np.random.default_rng(0)
SAMPLES = GENERATOR.normal(size=(STEPS * 4, 5)).astype("float32")
LABELS = GENERATOR.integers(0, 3, STEPS * 4)


def keras() -> None:
    import keras

    class Logging(keras.callbacks.Callback):
        count = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            leadline.log(after=self.count)
            self.count += 1

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            leadline.log(begun=epoch)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if self.count == 4:
                leadline.log(ahead=self.count)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            leadline.log(epoch=epoch)

    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = {"x": SAMPLES[:12], "y": LABELS[:12], "batch_size": 4}
    model.fit(**data, epochs=2, shuffle=False, verbose=0, callbacks=[Logging()])


def tape() -> None:
    import tensorflow as tf

    weight = tf.Variable(SAMPLES[:5, :3])

    @tf.function
    def train_step(samples: Any, labels: Any) -> Any:
        with tf.GradientTape() as gradients:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, samples @ weight))
        weight.assign_sub(0.1 * gradients.gradient(loss, weight))
        return loss

    for step in range(STEPS):
        at = slice(4 * step, 4 * step + 4)
        train_step(SAMPLES[at], LABELS[at])
        leadline.log(after=step)
    leadline.log(end=1)


def jax() -> None:
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.sgd(0.1)
    weight = jnp.asarray(SAMPLES[:5, :3])
    state = optimizer.init(weight)

    def loss_of(weight: Any, samples: Any, labels: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(samples @ weight, labels).mean()

    @jax.jit
    def train_step(weight: Any, state: Any, samples: Any, labels: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(weight, samples, labels)
        updates, state = optimizer.update(gradient, state, weight)
        return optax.apply_updates(weight, updates), state, loss

    for step in range(STEPS):
        at = slice(4 * step, 4 * step + 4)
        weight, state, _ = train_step(weight, state, SAMPLES[at], LABELS[at])
        leadline.log(after=step)
    leadline.log(end=1)


def mxnet() -> None:
    import mxnet as mx
    from mxnet import autograd, gluon

    net = gluon.nn.Dense(3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for step in range(STEPS):
        at = slice(4 * step, 4 * step + 4)
        with autograd.record():
            loss = loss_of(net(mx.nd.array(SAMPLES[at])), mx.nd.array(LABELS[at]))
        loss.backward()
        trainer.step(4)
        leadline.log(after=step)
    leadline.log(end=1)


def xgboost() -> None:
    import xgboost
    from xgboost.callback import TrainingCallback

    class Logging(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            leadline.log(after=epoch)
            return False

    data = xgboost.DMatrix(SAMPLES, LABELS > 0)
    xgboost.train({"nthread": 1}, data, STEPS, evals=[(data, "train")], callbacks=[Logging()], verbose_eval=False)
    leadline.log(end=1)


def lightgbm() -> None:
    import lightgbm

    def log(environment: Any) -> None:
        leadline.log(after=environment.iteration)

    data = lightgbm.Dataset(SAMPLES, LABELS)
    lightgbm.train({"num_threads": 1, "verbose": -1}, data, STEPS, callbacks=[log])
    leadline.log(end=1)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
