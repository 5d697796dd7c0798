"""Five folds with one compiled step: fresh parameters and optimizer state for each."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
x = rng.normal(size=(400, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 3)) + 0.3 * rng.normal(size=(400, 3))).argmax(1)
optimizer = optax.adam(5e-3)


def init(key):
    a, b = jax.random.split(key)
    return {
        "w1": jax.random.normal(a, (8, 32)) * 0.3,
        "b1": jnp.zeros(32),
        "w2": jax.random.normal(b, (32, 3)) * 0.2,
        "b2": jnp.zeros(3),
    }


def loss_fn(params, x, y):
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    logits = h @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


folds = np.array_split(rng.permutation(400), 5)
for k, valid in enumerate(folds):
    train = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
    params = init(jax.random.PRNGKey(k))
    state = optimizer.init(params)
    losses = []
    for _ in range(max(40, steps // 3)):
        index = rng.choice(train, 32)
        params, state, loss = step(params, state, x[index], y[index])
        losses.append(float(loss))
    print(f"fold {k}: {losses[-1]:.4f} {float(loss_fn(params, x[valid], y[valid])):.4f}")
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
