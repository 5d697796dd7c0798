"""Trains five steps with a framework, while whatever finds facts about loss calls raises."""

from __future__ import annotations

import sys

import numpy as np

X, Y = np.random.default_rng(0).normal(size=(20, 4)).astype("float32"), np.arange(20) % 2


def fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("no facts")


def train_torch() -> None:
    import torch

    from leadline.frameworks.torch.capture.loss_inputs import LossInputs

    LossInputs.before_backward = fail
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        torch.nn.functional.cross_entropy(model(torch.from_numpy(X)), torch.from_numpy(Y)).backward()
        optimizer.step()
        optimizer.zero_grad()


def train_tensorflow() -> None:
    import keras

    from leadline.frameworks.tensorflow import keras_hooks

    keras_hooks.facts_of = fail
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(X, Y, batch_size=4, verbose=0)


def train_mxnet() -> None:
    import mxnet as mx
    from mxnet import autograd, gluon

    from leadline.frameworks.mxnet.loss_inputs import GluonLossFacts

    GluonLossFacts.add = fail
    net, loss_function = gluon.nn.Dense(2), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for _ in range(5):
        with autograd.record():
            loss = loss_function(net(mx.nd.array(X)), mx.nd.array(Y))
        loss.backward()
        trainer.step(20)


{"torch": train_torch, "tensorflow": train_tensorflow, "mxnet": train_mxnet}[sys.argv[1]]()
