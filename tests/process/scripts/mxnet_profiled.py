"""Trains a network with Gluon, and afterwards profiles an operator itself. Argument: the file of its own profile."""

from __future__ import annotations

import sys

import mxnet as mx
from mxnet import autograd, gluon, nd, profiler
from mxnet.gluon import nn

BATCH = 16
mx.random.seed(3)
net = nn.HybridSequential()
net.add(nn.Dense(16, activation="relu"), nn.Dense(3))
net.initialize()
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "adam")
x, y = nd.random.normal(shape=(BATCH, 12)), nd.zeros((BATCH,))
for _ in range(30):
    with autograd.record():
        loss = loss_function(net(x), y)
    loss.backward()
    trainer.step(BATCH)
nd.waitall()

profiler.set_config(filename=sys.argv[1], profile_imperative=True)
profiler.set_state("run")
nd.sqrt(x).wait_to_read()
profiler.set_state("stop")
profiler.dump()
