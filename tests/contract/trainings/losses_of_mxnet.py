"""Losses of Gluon that show every fact about a loss call, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

CAPTURE = ["checks:every=1"]


def owners() -> list[Any]:
    return [gluon.Trainer]


def train() -> bytes:
    mx.random.seed(3)
    net = nn.Sequential()
    net.add(nn.Dense(3, in_units=5), nn.Dense(1, in_units=5), nn.Dense(3, in_units=5))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    x = nd.array(np.random.default_rng(0).normal(size=(16, 5)))
    one_hot = nd.array(np.eye(3)[np.arange(16) % 3])
    binary = gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)
    squared, divergence = gluon.loss.L2Loss(), gluon.loss.KLDivLoss()
    crossed = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)
    for _ in range(3):
        with autograd.record():
            loss = binary(nd.sigmoid(net[0](x)), one_hot) + squared(nd.tanh(net[1](x)), x[:, :1])
            loss = loss + divergence(nd.log_softmax(net[2](x)), one_hot) + crossed(net[2](x), one_hot)
        loss.backward()
        trainer.step(16)
    return b"".join(parameter.data().asnumpy().tobytes() for parameter in net.collect_params().values())
