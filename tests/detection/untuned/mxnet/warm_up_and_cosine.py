"""An LSTM of characters with clipped gradients and a cosine schedule with warm-up."""

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

steps = int(sys.argv[1])
mx.random.seed(int(sys.argv[2]))
rng = np.random.RandomState(int(sys.argv[2]))
V = 16


class Model(gluon.Block):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embedding = nn.Embedding(V, 24)
            self.lstm = rnn.LSTM(32, layout="NTC", input_size=24)
            self.out = nn.Dense(V, flatten=False)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x)))


model = Model()
model.initialize(mx.init.Xavier())
schedule = mx.lr_scheduler.CosineScheduler(steps, base_lr=5e-3, final_lr=1e-5, warmup_steps=max(1, steps // 10))
trainer = gluon.Trainer(model.collect_params(), "adam", {"lr_scheduler": schedule})
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
losses = []
for step in range(steps):
    tokens = (rng.randint(0, V, (16, 1)) + rng.randint(1, 4, (16, 1)) * np.arange(13)) % V
    x, y = nd.array(tokens[:, :-1]), nd.array(tokens[:, 1:])
    with autograd.record():
        loss = loss_fn(model(x), y).mean()
    loss.backward()
    grads = [p.grad() for p in model.collect_params().values()]
    gluon.utils.clip_global_norm(grads, 1.0)
    trainer.step(1)
    losses.append(float(loss.asscalar()))
    if step % 50 == 0:
        print(step, losses[-1])
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
