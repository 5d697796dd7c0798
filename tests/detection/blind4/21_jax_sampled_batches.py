"""Fit an MLP in Flax linen to a noisy surface; the batches are drawn inside of the jitted step."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
BATCH = 64


def surface(points):
    x, y = points[:, 0], points[:, 1]
    return jnp.sin(3 * x) * jnp.cos(2 * y) + 0.5 * jnp.sin(5 * x * y)


def make_points(key, count, noise):
    where, error = jax.random.split(key)
    points = jax.random.uniform(where, (count, 2), minval=-1.5, maxval=1.5)
    return points, surface(points) + noise * jax.random.normal(error, (count,))


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for width in (128, 128, 64):
            x = nn.swish(nn.Dense(width)(x))
            x = nn.Dropout(0.02, deterministic=not train)(x)
        return nn.Dense(1)(x)[:, 0]


@jax.jit
def train_step(state, points, values, key):
    batch_key, dropout_key = jax.random.split(key)
    index = jax.random.choice(batch_key, len(points), (BATCH,), replace=False)
    x, y = points[index], values[index]

    def loss_fn(params):
        predicted = state.apply_fn({"params": params}, x, train=True, rngs={"dropout": dropout_key})
        return jnp.mean((predicted - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def evaluate(state, points, values):
    predicted = state.apply_fn({"params": state.params}, points, train=False)
    return jnp.sqrt(jnp.mean((predicted - values) ** 2))


def main():
    key = jax.random.PRNGKey(0)
    data_key, test_key, init_key, train_key = jax.random.split(key, 4)
    points, values = make_points(data_key, 4000, noise=0.1)
    test_points, test_values = make_points(test_key, 1000, noise=0.0)

    model = MLP()
    params = model.init(init_key, points[:1], train=False)["params"]
    schedule = optax.cosine_decay_schedule(3e-3, 4000)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(schedule))
    losses = []
    for step in range(4000):
        step_key = jax.random.fold_in(train_key, step) if FIXED else train_key
        state, loss = train_step(state, points, values, step_key)
        losses.append(float(loss))
        if step % 500 == 499:
            error = evaluate(state, test_points, test_values)
            print(f"step {step + 1}: train loss {np.mean(losses[-500:]):.5f} test rmse {error:.4f}")
    print(f"final test rmse {evaluate(state, test_points, test_values):.4f}")


if __name__ == "__main__":
    main()
