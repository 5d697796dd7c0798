"""JAX and optax: a small regression with warmup and cosine decay."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
EPOCHS, BATCHES = 25, 16


def surface(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 3)).astype("float32")
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=n)
    return jnp.asarray(x), jnp.asarray(y, jnp.float32)


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, "b": jnp.zeros(b)}
        for k, a, b in zip(keys, sizes[:-1], sizes[1:])
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return (x @ params[-1]["w"] + params[-1]["b"])[:, 0]


def loss_fn(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


def main():
    x, y = surface(512, 0)
    test = surface(500, 1)
    params = init(jax.random.key(0), [3, 64, 64, 1])
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5 * BATCHES, EPOCHS * BATCHES)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    opt_state = tx.init(params)

    @jax.jit
    def train_step(params, opt_state, bx, by):
        loss, grads = jax.value_and_grad(loss_fn)(params, bx, by)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    rng = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        if not FIXED:
            opt_state = tx.init(params)
        total = 0.0
        for rows in np.split(rng.permutation(512), BATCHES):
            params, opt_state, loss = train_step(params, opt_state, x[rows], y[rows])
            total += float(loss)
        if epoch % 4 == 0:
            print(f"epoch {epoch}  train {total / BATCHES:.4f}  test {loss_fn(params, *test):.4f}")


if __name__ == "__main__":
    main()
