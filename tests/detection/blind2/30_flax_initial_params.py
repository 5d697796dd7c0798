"""Flax with batch normalization, after the guide; accuracy on held-out images each epoch."""

import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for features in (12, 24):
            x = nn.Conv(features, (3, 3), strides=2)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        return nn.Dense(4)(x.reshape(len(x), -1))


class TrainState(train_state.TrainState):
    batch_stats: Any


def arrows(n, rng):
    """Arrows in four directions."""
    y = rng.integers(0, 4, n)
    images = np.zeros((n, 14, 14), "float32")
    for i in range(n):
        canvas = np.zeros((14, 14), "float32")
        row, column = rng.integers(4, 10), rng.integers(4, 8)
        canvas[row, column - 3 : column + 4] = 1
        for k in range(3):
            canvas[row - k, column + 3 - k] = canvas[row + k, column + 3 - k] = 1
        images[i] = np.rot90(canvas, y[i])
    return images[..., None] + 0.4 * rng.normal(size=(n, 14, 14, 1)).astype("float32"), y


def main():
    rng = np.random.default_rng(0)
    x, y = arrows(1200, rng)
    val_x, val_y = arrows(400, rng)
    model = CNN()
    variables = model.init(jax.random.key(0), jnp.ones((1, 14, 14, 1)), train=False)
    params, batch_stats = variables["params"], variables["batch_stats"]
    state = TrainState.create(apply_fn=model.apply, params=params, batch_stats=batch_stats, tx=optax.adam(3e-3))

    @jax.jit
    def train_step(state, x, y):
        def loss_fn(params):
            logits, updates = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats}, x, train=True, mutable=["batch_stats"]
            )
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), updates

        (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"]), loss

    @jax.jit
    def eval_step(state, x, y):
        used = state.params if FIXED else params
        logits = state.apply_fn({"params": used, "batch_stats": state.batch_stats}, x, train=False)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
        return loss, (logits.argmax(-1) == y).mean()

    for epoch in range(5):
        losses = []
        for batch in rng.permutation(len(x)).reshape(-1, 40):
            state, loss = train_step(state, x[batch], y[batch])
            losses.append(float(loss))
        val_loss, accuracy = eval_step(state, val_x, val_y)
        print(f"epoch {epoch}  train {np.mean(losses):.3f}  val {val_loss:.3f}  acc {accuracy:.3f}")
    print(f"final val loss {val_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
