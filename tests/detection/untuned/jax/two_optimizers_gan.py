"""A GAN with two parameter trees, two optimizers and one compiled step for each."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
seed = int(sys.argv[2])


def mlp(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [
        {"w": jax.random.normal(k, (a, b)) * np.sqrt(2 / a), "b": jnp.zeros(b)}
        for k, a, b in zip(keys, sizes, sizes[1:])
    ]


def apply(params, x):
    for layer in params[:-1]:
        x = jax.nn.leaky_relu(x @ layer["w"] + layer["b"], 0.2)
    return x @ params[-1]["w"] + params[-1]["b"]


key_g, key_d, key = jax.random.split(jax.random.PRNGKey(seed), 3)
g, d = mlp(key_g, [4, 64, 64, 2]), mlp(key_d, [2, 64, 64, 1])
tx_g, tx_d = optax.adam(1e-3, b1=0.5), optax.adam(1e-3, b1=0.5)
state_g, state_d = tx_g.init(g), tx_d.init(d)
target = jnp.array([2.0, -1.0])


@jax.jit
def step_d(d, state, g, key):
    a, b = jax.random.split(key)
    real = target + 0.4 * jax.random.normal(a, (64, 2))
    fake = apply(g, jax.random.normal(b, (64, 4)))

    def loss_fn(d):
        return jax.nn.softplus(-apply(d, real)).mean() + jax.nn.softplus(apply(d, fake)).mean()

    loss, grads = jax.value_and_grad(loss_fn)(d)
    updates, state = tx_d.update(grads, state, d)
    return optax.apply_updates(d, updates), state, loss


@jax.jit
def step_g(g, state, d, key):
    def loss_fn(g):
        return jax.nn.softplus(-apply(d, apply(g, jax.random.normal(key, (64, 4))))).mean()

    loss, grads = jax.value_and_grad(loss_fn)(g)
    updates, state = tx_g.update(grads, state, g)
    return optax.apply_updates(g, updates), state, loss


def distance():
    return float(jnp.linalg.norm(apply(g, jax.random.normal(jax.random.PRNGKey(9), (256, 4))).mean(0) - target))


before = distance()
for step in range(max(40, steps // 2)):
    key, one, two = jax.random.split(key, 3)
    d, state_d, loss_d = step_d(d, state_d, g, one)
    g, state_g, loss_g = step_g(g, state_g, d, two)
    if step % 25 == 0:
        print(step, float(loss_d), float(loss_g))
print(f"distance fell from {before:.4g} to {distance():.4g}")
