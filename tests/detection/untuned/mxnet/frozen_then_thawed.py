"""A pretrained body with grad_req null under a new head, then thawed with a smaller rate."""

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

steps = int(sys.argv[1])
mx.random.seed(int(sys.argv[2]))
rng = np.random.RandomState(int(sys.argv[2]))
body = nn.HybridSequential()
body.add(nn.Dense(48, activation="relu", in_units=12), nn.Dense(48, activation="relu", in_units=48))
body.initialize(mx.init.Xavier())
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()


def fit(head, trainer, centres, count):
    losses = []
    for _ in range(count):
        y = rng.randint(0, len(centres), 32)
        x = nd.array(centres[y] + 0.8 * rng.normal(size=(32, 12)))
        with autograd.record():
            loss = loss_fn(head(body(x)), nd.array(y))
        loss.backward()
        trainer.step(32, ignore_stale_grad=True)
        losses.append(float(loss.mean().asscalar()))
    return losses


def new_head(classes):
    head = nn.Dense(classes, in_units=48)
    head.initialize(mx.init.Xavier())
    return head


head = new_head(5)
both = {**body.collect_params(), **head.collect_params()}
fit(head, gluon.Trainer(both, "adam", {"learning_rate": 2e-3}), rng.normal(size=(5, 12)), steps // 2)
head, centres = new_head(3), rng.normal(size=(3, 12))
body.collect_params().setattr("grad_req", "null")
first = fit(head, gluon.Trainer(head.collect_params(), "adam", {"learning_rate": 3e-3}), centres, steps // 2)
body.collect_params().setattr("grad_req", "write")
both = {**body.collect_params(), **head.collect_params()}
last = fit(head, gluon.Trainer(both, "sgd", {"learning_rate": 1e-2, "momentum": 0.9}), centres, steps // 2)
print(f"loss fell from {first[0]:.4g} to {sum(last[-10:]) / 10:.4g}")
