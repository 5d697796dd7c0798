"""Four folds with Gluon: a fresh network and trainer for each, validated after each epoch."""

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

steps = int(sys.argv[1])
mx.random.seed(int(sys.argv[2]))
rng = np.random.RandomState(int(sys.argv[2]))
x = rng.normal(size=(400, 10)).astype("float32")
y = (x.dot(rng.normal(size=(10, 3))) + 0.5 * rng.normal(size=(400, 3))).argmax(1).astype("float32")
folds = np.array_split(rng.permutation(400), 4)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
for k in range(4):
    train = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x[train], y[train]), batch_size=25, shuffle=True)
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dropout(0.1), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 5e-3})
    for epoch in range(max(2, steps // 48)):
        total = 0.0
        for data, label in loader:
            with autograd.record():
                loss = loss_fn(net(data), label)
            loss.backward()
            trainer.step(len(data))
            total += loss.mean().asscalar() / len(loader)
        if epoch == 0:
            first = total
    accuracy = (net(nd.array(x[folds[k]])).argmax(1).asnumpy() == y[folds[k]]).mean()
    print(k, total, accuracy)
print(f"loss fell from {first:.4g} to {total:.4g}")
