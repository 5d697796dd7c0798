"""A physics-informed network of the heat equation: Adam with Optax, then its L-BFGS."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
key = jax.random.PRNGKey(int(sys.argv[2]))


def init(key, sizes=(2, 24, 24, 1)):
    keys = jax.random.split(key, 3)
    return [
        {"w": jax.random.normal(k, (a, b)) / np.sqrt(a), "b": jnp.zeros(b)} for k, a, b in zip(keys, sizes, sizes[1:])
    ]


def u(params, x, t):
    h = jnp.stack([x, t])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


u_t, u_xx = jax.grad(u, 2), jax.grad(jax.grad(u, 1), 1)
points = jax.random.uniform(key, (64, 2))


def loss_fn(params, points=points):
    x, t = points.T
    residual = jax.vmap(lambda x, t: u_t(params, x, t) - 0.1 * u_xx(params, x, t))(x, t)
    zero = jnp.zeros_like(x)
    start = jax.vmap(lambda x: u(params, x, 0.0))(x) - jnp.sin(jnp.pi * x)
    edges = jax.vmap(lambda t: u(params, 0.0, t))(t), jax.vmap(lambda t: u(params, 1.0, t))(t)
    return (residual**2).mean() + 5 * (start**2).mean() + sum((edge**2).mean() for edge in edges) + 0 * zero.sum()


params = init(key)
optimizer = optax.adam(3e-3)
state = optimizer.init(params)


@jax.jit
def adam_step(params, state):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


losses = []
for step in range(steps):
    params, state, loss = adam_step(params, state)
    losses.append(float(loss))
solver = optax.lbfgs()
state = solver.init(params)
value_and_grad = optax.value_and_grad_from_state(loss_fn)


@jax.jit
def lbfgs_step(params, state):
    value, grad = value_and_grad(params, state=state)
    updates, state = solver.update(grad, state, params, value=value, grad=grad, value_fn=loss_fn)
    return optax.apply_updates(params, updates), state, value


for step in range(steps // 6):
    params, state, loss = lbfgs_step(params, state)
    losses.append(float(loss))
print(f"loss fell from {losses[0]:.4g} to {losses[-1]:.4g}")
