"""One NaN in row 700 of the data, 32 rows a batch: FRAMEWORK."""

from __future__ import annotations

import sys

import numpy as np

ROWS, BATCH = 1600, 32
draws = np.random.default_rng(0)
X = draws.normal(size=(ROWS, 20)).astype("float32")
Y = (X[:, :10].sum(1) > 0).astype("int64")
X[700, 5] = float("nan")
BATCHES = [(X[at : at + BATCH], Y[at : at + BATCH]) for at in range(0, ROWS, BATCH)]


def torch() -> None:
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for x, y in BATCHES:
        loss = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def function() -> None:
    """A function of TensorFlow that is called with the batch."""
    import keras
    import tensorflow as tf

    net = keras.Sequential([keras.Input((20,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)])
    cost = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = cost(y, net(x, training=True))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    for x, y in BATCHES:
        train_step(x, y)


def fit() -> None:
    import keras

    net = keras.Sequential([keras.Input((20,)), keras.layers.Dense(2)])
    net.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)


def mxnet() -> None:
    import mxnet as mx
    from mxnet import autograd, gluon

    net = gluon.nn.Dense(2)
    net.initialize(mx.init.Xavier())
    cost, trainer = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), "adam")
    for x, y in BATCHES:
        with autograd.record():
            loss = cost(net(mx.nd.array(x)), mx.nd.array(y)).mean()
        loss.backward()
        trainer.step(1)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
