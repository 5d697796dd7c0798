"""A small network of Gluon with an evaluation, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

CAPTURE = [
    "all:every=1",
    "layers:every=1",
    "layers:every=1,modes=eval",
    "labels:every=1",
    "predictions:every=1",
    "losses:every=1,modes=eval",
    "optimizer_variables:every=1",
]


def owners() -> list[Any]:
    return [gluon.Trainer, gluon.Block, gluon.utils, gluon.data.DataLoader, nd.NDArray, autograd, mx.profiler]


def train() -> bytes:
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", prefix="first_"), nn.Dropout(0.2), nn.Dense(3, prefix="last_"))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss(prefix="cross_entropy_")
    generator = np.random.default_rng(0)
    samples, labels = generator.normal(size=(96, 5)).astype("float32"), generator.integers(0, 3, 96).astype("float32")
    data = gluon.data.ArrayDataset(samples, labels)
    for x, y in gluon.data.DataLoader(data, batch_size=16):
        with autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        trainer.step(16)
    for x, y in gluon.data.DataLoader(data, batch_size=48):
        loss_function(net(x), y).wait_to_read()
    state = [array for pair in trainer._updaters[0].states.values() for array in pair]
    parameters = [parameter.data() for parameter in net.collect_params().values()]
    return b"".join(array.asnumpy().tobytes() for array in [*parameters, *state])
