"""Reconstruction first, then classification on the same encoder, with another optimizer and a function of its own."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
centres = rng.normal(size=(4, 16)) * 2


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.gelu(nn.Dense(16)(nn.gelu(nn.Dense(64)(x))))


encoder, decoder, head = Encoder(), nn.Dense(16), nn.Dense(4)
keys = jax.random.split(jax.random.PRNGKey(0), 3)
x0 = jnp.zeros((1, 16))


def batch():
    y = rng.integers(0, 4, 32)
    return (centres[y] + rng.normal(size=(32, 16))).astype("float32"), y


params = {"encoder": encoder.init(keys[0], x0), "decoder": decoder.init(keys[1], x0)}
state = TrainState.create(apply_fn=None, params=params, tx=optax.adamw(1e-3))


@jax.jit
def reconstruct(state, x):
    def loss_fn(p):
        return jnp.mean((decoder.apply(p["decoder"], encoder.apply(p["encoder"], x)) - x) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


for step in range(steps // 2):
    state, loss = reconstruct(state, batch()[0])
print("reconstruction", float(loss))
params = {"encoder": state.params["encoder"], "head": head.init(keys[2], x0)}
state = TrainState.create(apply_fn=None, params=params, tx=optax.sgd(0.01, momentum=0.9))


@jax.jit
def classify(state, x, y):
    def loss_fn(p):
        logits = head.apply(p["head"], encoder.apply(p["encoder"], x))
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


losses = []
for step in range(steps // 2):
    state, loss = classify(state, *batch())
    losses.append(float(loss))
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
