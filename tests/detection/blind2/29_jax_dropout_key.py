"""Flax: a classifier with much dropout on few examples."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dropout(0.2)(x, deterministic=not train)
        for _ in range(2):
            x = nn.relu(nn.Dense(128)(x))
            x = nn.Dropout(0.5)(x, deterministic=not train)
        return nn.Dense(2)(x)


def genes(n, rng):
    x = rng.normal(size=(n, 60)).astype("float32")
    y = (x[:, :6].sum(1) + x[:, 6] * x[:, 7] + 1.5 * rng.normal(size=n) > 0).astype("int32")
    return x, y


@jax.jit
def train_step(state, x, y, dropout_key):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, x, train=True, rngs={"dropout": dropout_key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def eval_step(state, x, y):
    logits = state.apply_fn({"params": state.params}, x, train=False)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    return loss, (logits.argmax(-1) == y).mean()


def main():
    rng = np.random.default_rng(0)
    x, y = genes(500, rng)
    val_x, val_y = genes(2000, rng)
    init_key, dropout_key = jax.random.split(jax.random.key(0))
    model = Net()
    params = model.init(init_key, jnp.ones((1, 60)), train=False)["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    for epoch in range(30):
        order = rng.permutation(500)
        for batch in order.reshape(-1, 50):
            step_key = jax.random.fold_in(dropout_key, state.step) if FIXED else dropout_key
            state, loss = train_step(state, x[batch], y[batch], step_key)
        val_loss, accuracy = eval_step(state, val_x, val_y)
        if epoch % 5 == 4:
            print(f"epoch {epoch}  train {loss:.3f}  val {val_loss:.3f}  acc {accuracy:.3f}")
    print(f"final val loss {val_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
