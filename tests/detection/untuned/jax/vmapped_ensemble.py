"""Eight networks trained at once by vmap, each with a learning rate of its own."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
rates = jnp.logspace(-3, -1.5, 8)
optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)
true = rng.normal(size=(6, 4))


def init(key):
    a, b = jax.random.split(key)
    return {"w1": jax.random.normal(a, (6, 32)) * 0.4, "w2": jax.random.normal(b, (32, 4)) * 0.2}


def loss_fn(params, x, y):
    logits = jax.nn.relu(x @ params["w1"]) @ params["w2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def one(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


params = jax.vmap(init)(jax.random.split(jax.random.PRNGKey(0), 8))
state = jax.vmap(optimizer.init)(params)
state.hyperparams["learning_rate"] = rates
step_all = jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)))
curve = []
for step in range(steps):
    x = rng.normal(size=(48, 6)).astype("float32")
    y = (x @ true + 0.3 * rng.normal(size=(48, 4))).argmax(1)
    params, state, losses = step_all(params, state, x, y)
    curve.append(float(losses.mean()))
    if step % 50 == 0:
        print(step, np.asarray(losses).round(3))
print(f"loss fell from {curve[0]:.4g} to {np.mean(curve[-10:]):.4g}")
