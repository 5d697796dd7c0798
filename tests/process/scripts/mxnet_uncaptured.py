"""Trains with MXNet in a way that is not captured, or in part. Argument: the way."""

from __future__ import annotations

import sys

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

BATCH = 16
mx.random.seed(3)
samples = nd.random.normal(shape=(BATCH * 4, 12))
labels = samples[:, :3].argmax(axis=1)


def module():
    data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
    output = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3), label, name="softmax")
    batches = mx.io.NDArrayIter(samples, labels, BATCH)
    mx.mod.Module(output).fit(batches, num_epoch=2)


def by_hand():
    weight = nd.zeros((12, 3))
    weight.attach_grad()
    for _ in range(8):
        with autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(nd.dot(samples, weight), labels)
        loss.backward()
        weight -= 0.1 * weight.grad / len(samples)


def hybridized():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(3))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for _ in range(8):
        with autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(samples), labels)
        loss.backward()
        trainer.step(len(samples))


globals()[sys.argv[1]]()
