"""Flax: an image classifier with batch normalization."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def images(n, seed):
    """Gratings of four directions, in gray values from 0 to 255."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    angle, axis = y * np.pi / 4, np.arange(12)
    wave = np.cos(angle)[:, None, None] * axis[None, None] + np.sin(angle)[:, None, None] * axis[None, :, None]
    x = np.sin(1.2 * wave + rng.uniform(0, 6.28, (n, 1, 1))) + 0.7 * rng.normal(size=(n, 12, 12))
    x = np.clip(128 + 40 * x, 0, 255)
    return jnp.asarray(x[..., None], jnp.float32), jnp.asarray(y)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(12, (5, 5))(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = nn.Conv(16, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        return nn.Dense(4)(nn.relu(x).mean((1, 2)))


def main():
    x, y = images(640, 0)
    test_x, test_y = images(400, 1)
    model = Net()
    variables = model.init(jax.random.key(0), x[:2], train=False)
    params, batch_stats = variables["params"], variables["batch_stats"]
    tx = optax.adam(3e-3)
    opt_state = tx.init(params)

    @jax.jit
    def train_step(params, batch_stats, opt_state, bx, by):
        def loss_fn(params):
            logits, updates = model.apply(
                {"params": params, "batch_stats": batch_stats}, bx, train=True, mutable=["batch_stats"]
            )
            return optax.softmax_cross_entropy_with_integer_labels(logits, by).mean(), updates

        (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        steps, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, steps), updates["batch_stats"], opt_state, loss

    @jax.jit
    def evaluate(params, batch_stats):
        logits = model.apply({"params": params, "batch_stats": batch_stats}, test_x, train=False)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, test_y).mean()
        return loss, (logits.argmax(-1) == test_y).mean()

    rng = np.random.default_rng(0)
    for epoch in range(10):
        total = 0.0
        for rows in np.split(rng.permutation(640), 20):
            if FIXED:
                params, batch_stats, opt_state, loss = train_step(params, batch_stats, opt_state, x[rows], y[rows])
            else:
                params, _, opt_state, loss = train_step(params, batch_stats, opt_state, x[rows], y[rows])
            total += float(loss)
        test_loss, accuracy = evaluate(params, batch_stats)
        print(f"epoch {epoch}  loss {total / 20:.3f}  test loss {test_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
