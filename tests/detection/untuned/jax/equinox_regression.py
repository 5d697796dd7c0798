"""An MLP in Equinox with filter_jit, the one-cycle schedule of Optax and a moving average of the weights."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
model = eqx.nn.MLP(4, 1, 48, 2, activation=jax.nn.silu, key=jax.random.PRNGKey(int(sys.argv[2])))
average = model
optimizer = optax.adam(optax.cosine_onecycle_schedule(steps, 5e-3))
state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


@eqx.filter_jit
def step_fn(model, state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state, loss


def blend(a, b):
    return 0.98 * a + 0.02 * b if eqx.is_inexact_array(a) else a


losses = []
for step in range(steps):
    x = rng.uniform(-2, 2, size=(64, 4)).astype("float32")
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    model, state, loss = step_fn(model, state, x, y)
    average = jax.tree_util.tree_map(blend, average, model)
    losses.append(float(loss))
    if step % 100 == 99:
        print(step, losses[-1], "average", float(loss_fn(average, x, y)))
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
