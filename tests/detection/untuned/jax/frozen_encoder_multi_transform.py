"""An encoder frozen by optax.multi_transform, after it was trained on another task; a fresh head."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
centres, others = rng.normal(size=(5, 12)) * 1.2, rng.normal(size=(3, 12)) * 1.2


def dense(key, a, b):
    return {"kernel": jax.random.normal(key, (a, b)) / np.sqrt(a), "bias": jnp.zeros(b)}


def forward(params, x):
    for layer in params["encoder"]:
        x = jax.nn.gelu(x @ layer["kernel"] + layer["bias"])
    return x @ params["head"]["kernel"] + params["head"]["bias"]


def loss_fn(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(forward(params, x), y).mean()


def fit(params, tx, centres, count):
    @jax.jit
    def update(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    state, losses = tx.init(params), []
    for _ in range(count):
        y = rng.integers(0, len(centres), 32)
        x = (centres[y] + rng.normal(size=(32, 12))).astype("float32")
        params, state, loss = update(params, state, x, y)
        losses.append(float(loss))
    return params, losses


keys = jax.random.split(jax.random.PRNGKey(int(sys.argv[2])), 4)
params = {"encoder": [dense(keys[0], 12, 48), dense(keys[1], 48, 48)], "head": dense(keys[2], 48, 5)}
params, _ = fit(params, optax.adam(2e-3), centres, steps // 2)
params = {"encoder": params["encoder"], "head": dense(keys[3], 48, 3)}
labels = {"encoder": "frozen", "head": "trained"}
tx = optax.multi_transform({"frozen": optax.set_to_zero(), "trained": optax.adam(3e-3)}, labels)
params, losses = fit(params, tx, others, steps)
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
