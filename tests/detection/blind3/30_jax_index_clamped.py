"""JAX: a matrix factorization of ratings, its table as large as the number of different users."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def ratings(seed):
    """Ratings of users whose numbers have gaps: a third of the accounts was deleted."""
    rng = np.random.default_rng(seed)
    users = np.sort(rng.choice(600, 400, replace=False))
    taste, kind = rng.normal(size=(600, 4)), rng.normal(size=(80, 4))
    u, i = rng.choice(users, 12000), rng.integers(0, 80, 12000)
    r = (taste[u] * kind[i]).sum(1) / 2 + 0.2 * rng.normal(size=12000)
    return u, i, r.astype("float32")


def loss_fn(params, u, i, r):
    guess = (params["user"][u] * params["item"][i]).sum(-1) + params["bias"][i]
    penalty = 1e-3 * ((params["user"][u] ** 2).sum(-1) + (params["item"][i] ** 2).sum(-1)).mean()
    return jnp.mean((guess - r) ** 2) + penalty


def main():
    u, i, r = ratings(0)
    users = len(np.unique(u))
    if FIXED:
        u = np.searchsorted(np.unique(u), u)
    print(f"{users} users, 80 items")
    keys = jax.random.split(jax.random.key(0), 2)
    params = {
        "user": 0.3 * jax.random.normal(keys[0], (users, 6)),
        "item": 0.3 * jax.random.normal(keys[1], (80, 6)),
        "bias": jnp.zeros(80),
    }
    tx = optax.adam(1e-2)
    opt_state = tx.init(params)

    @jax.jit
    def train_step(params, opt_state, u, i, r):
        loss, grads = jax.value_and_grad(loss_fn)(params, u, i, r)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    train, test = np.arange(10000), np.arange(10000, 12000)
    rng = np.random.default_rng(1)
    evaluate = jax.jit(loss_fn)
    for epoch in range(15):
        total = 0.0
        for rows in np.split(rng.permutation(train), 50):
            params, opt_state, loss = train_step(params, opt_state, u[rows], i[rows], r[rows])
            total += float(loss)
        test_loss = float(evaluate(params, u[test], i[test], r[test]))
        if epoch % 3 == 2:
            print(f"epoch {epoch}  train {total / 50:.3f}  test {test_loss:.3f}")


if __name__ == "__main__":
    main()
