"""A training that waits 30 ms for each batch, and computes for less: FRAMEWORK."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

STEPS, WAIT_SECONDS = 80, 0.03
draws = np.random.default_rng(0)


def batches() -> Iterator[tuple[Any, Any]]:
    for _ in range(STEPS):
        time.sleep(WAIT_SECONDS)
        x = draws.normal(size=(32, 20)).astype("float32")
        yield x, (x[:, 0] > 0).astype("int64")


def torch() -> None:
    """A generator of the script."""
    import torch
    from torch import nn

    net = nn.Linear(20, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        loss = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def tensorflow() -> None:
    import tensorflow as tf

    shapes = (tf.TensorSpec((32, 20)), tf.TensorSpec((32,), tf.int64))
    weights, rate = tf.Variable(tf.zeros((20, 2))), 0.1
    for x, y in tf.data.Dataset.from_generator(batches, output_signature=shapes):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights))
        weights.assign_sub(rate * tape.gradient(loss, weights))


def mxnet() -> None:
    import mxnet as mx
    from mxnet import autograd, gluon

    class Slow(mx.io.NDArrayIter):  # type: ignore[misc]
        def next(self) -> Any:
            time.sleep(WAIT_SECONDS)
            return super().next()

    x = draws.normal(size=(32 * STEPS, 20)).astype("float32")
    net = gluon.nn.Dense(2)
    net.initialize()
    cost, trainer = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), "sgd")
    for batch in Slow(x, (x[:, 0] > 0).astype("int64"), 32):
        with autograd.record():
            loss = cost(net(batch.data[0]), batch.label[0]).mean()
        loss.backward()
        trainer.step(1)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
