"""Trains a network with one fault with Gluon; without arguments the healthy twins of all of them."""

from __future__ import annotations

import gc
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

NAME, IS_FAULTY = "".join(sys.argv[1:]), len(sys.argv) > 1
FAULT, IS_HYBRID = NAME.removesuffix("_hybrid"), NAME.endswith("_hybrid")
BATCH, STEPS = 32, 60
mx.random.seed(3)
np.random.seed(3)
generator = np.random.default_rng(0)
X = generator.normal(size=(BATCH * STEPS, 12)).astype("float32")
Y = X[:, :3].argmax(1).astype("float32")
CrossEntropy = gluon.loss.SoftmaxCrossEntropyLoss


def network(*layers, head=None):
    net = nn.HybridSequential()
    net.add(*layers, head or nn.Dense(3))
    net.initialize(mx.init.Xavier())
    if IS_HYBRID:
        net.hybridize()
    return net


def fit(net, x=X, y=Y, optimizer="adam", rate=0.001, loss_function=None, clip=None, held_out=None):
    loss_function = loss_function or CrossEntropy()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate})
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=BATCH)
    for _ in range(1000 if IS_FAULTY else 4):
        for inputs, labels in batches:
            with autograd.record():
                loss = loss_function(net(inputs), labels)
            loss.backward()
            if clip is not None:
                gradients = [parameter.grad() for parameter in net.collect_params().values()]
                gluon.utils.clip_global_norm(gradients, clip * BATCH)
            trainer.step(BATCH)
        if held_out is not None:
            loss_function(net(nd.array(held_out[0])), nd.array(held_out[1])).mean().asscalar()


def nan():
    if IS_FAULTY:
        X[7 * BATCH + 5, 3] = np.nan
    fit(network(nn.Dense(16, activation="relu")))


def exploding():
    if IS_FAULTY:
        X[40 * BATCH :] *= 1000
    fit(network(nn.Dense(16)), optimizer="sgd", rate=0.05, clip=1.0)


def vanishing():
    layers = [nn.Dense(16, activation="sigmoid" if IS_FAULTY else "relu") for _ in range(12 if IS_FAULTY else 2)]
    fit(network(*layers))


def dead_relu():
    bias = mx.init.Constant(-50.0 if IS_FAULTY else 0.1)
    fit(network(nn.Dense(16, bias_initializer=bias), nn.Activation("relu")))


def cut():
    """No gradient reaches the first layer."""
    between = [nn.HybridLambda("BlockGrad")] if IS_FAULTY else []
    fit(network(nn.Dense(16, activation="relu"), *between))


def untrained():
    """The multiplier of the first layer's rate is too small to change a bit; in the twin it is 0."""
    first = nn.Dense(16, activation="relu")
    first.collect_params().setattr("lr_mult", 1e-9 if IS_FAULTY else 0)
    fit(network(first))


def unscaled():
    fit(network(nn.Dense(16, activation="relu")), x=X * 300 + 500 if IS_FAULTY else X)


def wrong_loss():
    """The network ends with a softmax, which the loss applies too."""
    last = nn.HybridLambda(lambda F, x: F.softmax(x)) if IS_FAULTY else nn.Dense(3)
    fit(network(nn.Dense(16, activation="relu"), nn.Dense(3), head=last))


def over_batch():
    """The softmax of the loss is taken over the samples."""
    loss = CrossEntropy(axis=0, sparse_label=False)
    fit(network(nn.Dense(16, activation="relu")), y=np.eye(3, dtype="float32")[Y.astype(int)], loss_function=loss)


def swapped():
    """The loss is given the labels as predictions."""
    loss = gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)
    labels = (X[:, :3] > 0).astype("float32")
    fit(network(nn.Dense(16)), y=labels, loss_function=lambda out, y: loss(y, nd.sigmoid(out)))


def overfit():
    labels = generator.integers(0, 3, len(Y)).astype("float32") if IS_FAULTY else Y
    split = 4 * BATCH if IS_FAULTY else len(X) // 2
    net = network(nn.Dense(128 if IS_FAULTY else 8, activation="relu"))
    held_out = X[split:], labels[split:]
    fit(net, X[:split], labels[:split], rate=0.01 if IS_FAULTY else 0.001, held_out=held_out)


if IS_FAULTY:
    globals()[FAULT]()
    print("the script went on")
else:
    for twin in (nan, exploding, vanishing, dead_relu, untrained, unscaled, wrong_loss, overfit):
        twin()
        gc.collect()  # a trainer and its parameters refer to each other
