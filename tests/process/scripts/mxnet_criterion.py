"""Trains with a loss that is a block of the script, and evaluates with it; prints what it computed."""

import json

import mxnet as mx
from mxnet import autograd, gluon, nd


class Focal(gluon.HybridBlock):
    def hybrid_forward(self, F, logits, labels):
        p = F.pick(F.softmax(logits), labels)
        return -((1 - p) ** 2) * F.log(p)


mx.random.seed(0)
network, criterion = gluon.nn.Dense(3, in_units=8), Focal()
network.initialize()
trainer = gluon.Trainer(network.collect_params(), "adam")
x, y = nd.random.normal(shape=(80, 8)), nd.random.randint(0, 3, shape=(80,)).astype("float32")
truth = {"train": [], "eval": []}
for _ in range(3):
    for at in range(0, 64, 16):
        with autograd.record():
            loss = criterion(network(x[at : at + 16]), y[at : at + 16])
        loss.backward()
        trainer.step(16)
        truth["train"].append(float(loss.mean().asscalar()))
    for at in (64, 72):
        loss = criterion(network(x[at : at + 8]), y[at : at + 8])
        truth["eval"].append(float(loss.mean().asscalar()))
print(json.dumps(truth))
