"""Trains without dropout. Arguments: ``linen`` or ``nnx``; ``healthy``: with it; ``chosen``: it is off on purpose."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

KIND = sys.argv[1]
IS_HEALTHY, IS_CHOSEN = "healthy" in sys.argv, "chosen" in sys.argv
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = x[:, :3].argmax(1)
KEY = jax.random.key(0)


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.relu(nn.Dense(16)(x))
        return nn.Dense(3)(nn.Dropout(0.4)(x, deterministic=not train))


class OfNnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.last = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(16, rngs=rngs), nnx.Dropout(0.4, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))


def loss_of(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def linen():
    model, tx = Linen(), optax.adam(1e-2)
    params = model.init(KEY, x[:1])["params"]
    state = tx.init(params)
    flags = {"train": IS_HEALTHY} if IS_HEALTHY or IS_CHOSEN else {}

    @jax.jit
    def train_step(params, state, x, y, key):
        def loss(params):
            return loss_of(model.apply({"params": params}, x, rngs={"dropout": key}, **flags), y)

        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    @jax.jit
    def evaluate(params, x, y):
        return loss_of(model.apply({"params": params}, x), y)

    for step in range(40):
        key = jax.random.fold_in(KEY, step) if IS_HEALTHY else KEY
        params, state, _ = train_step(params, state, x[:64], y[:64], key)
        evaluate(params, x, y)


def of_nnx():
    model = OfNnx()
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, x, y):
        value, gradients = nnx.value_and_grad(lambda model: loss_of(model(x), y))(model)
        optimizer.update(model, gradients)
        return value

    @nnx.jit
    def evaluate(model, x, y):
        return loss_of(model(x), y)

    for step in range(40):
        if step % 10 == 0:
            model.eval()
            evaluate(model, x, y)
        if IS_HEALTHY:
            model.train()
        train_step(model, optimizer, jnp.asarray(x[:64]), y[:64])


(linen if KIND == "linen" else of_nnx)()
print("done")
