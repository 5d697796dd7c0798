"""Trains a network with one fault with JAX, Flax and optax. Arguments: the fault; ``healthy`` to leave it out."""

from __future__ import annotations

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import leadline

FAULT, IS_FAULTY = sys.argv[1], "healthy" not in sys.argv
BATCH, STEPS = 32, 60
generator = np.random.default_rng(0)
X = generator.normal(size=(BATCH * STEPS, 12)).astype("float32")
Y = X[:, :3].argmax(1)


class Network(nn.Module):
    widths: tuple[int, ...] = (16,)
    activation: str = "relu"
    bias: float = 0.0
    broken_at: float = np.inf
    is_cut: bool = False

    @nn.compact
    def __call__(self, x):
        for at, width in enumerate(self.widths):
            layer = nn.remat(nn.Dense)(width, name=f"dense_{at}", bias_init=nn.initializers.constant(self.bias))
            x = getattr(jax.nn, self.activation)(layer(x))
            x = jax.lax.stop_gradient(x) if self.is_cut and not at else x
        x = Scale(name="scale")(x, self.broken_at)
        return nn.Dense(3, name="last")(x)


class Scale(nn.Module):
    """Divides by zero from the given largest input on."""

    @nn.compact
    def __call__(self, x, broken_at):
        worst = jnp.abs(x).max()
        return x * jnp.where(worst > broken_at, jnp.zeros(()) / jnp.zeros(()), 1.0)


def fit(network, x=X, y=Y, tx=None, held=None, epochs=None):
    """Train batch by batch, where faulty without end."""
    tx = tx or optax.adam(1e-2)
    p = network.init(jax.random.key(0), x[:1])["params"]
    state = tx.init(p)

    def loss_of(p, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(network.apply({"params": p}, x), y).mean()

    @jax.jit
    def train_step(p, state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(p, x, y)
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, loss

    evaluate = jax.jit(loss_of)
    for _ in range(epochs or (1000 if IS_FAULTY else 4)):
        for begin in range(0, len(x), BATCH):
            p, state, loss = train_step(p, state, x[begin : begin + BATCH], y[begin : begin + BATCH])
        if held is not None:
            with leadline.mode("eval"):
                evaluate(p, *held)
    return float(loss)


def nan():
    if IS_FAULTY:
        X[7 * BATCH + 5] *= 1000
    fit(Network(broken_at=500.0))


def exploding():
    if IS_FAULTY:
        X[40 * BATCH :] *= 1000
    fit(Network(), tx=optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.05)))


def vanishing():
    fit(Network(widths=(16,) * 12, activation="sigmoid") if IS_FAULTY else Network(widths=(16, 16)))


def dead_relu():
    fit(Network(bias=-50.0 if IS_FAULTY else 0.1))


def cut():
    """No gradient reaches the first layer."""
    fit(Network(is_cut=IS_FAULTY))


def untrained():
    """The rate of the first layer is too small to change a bit; in the twin optax freezes the layer."""
    of_first = optax.sgd(1e-12) if IS_FAULTY else optax.set_to_zero()
    labels = {"dense_0": "first", "scale": "others", "last": "others"}

    def labels_of(p):
        return {name: labels[name] for name in p}

    tx = optax.multi_transform({"first": of_first, "others": optax.sgd(0.05)}, labels_of)
    fit(Network(bias=0.3), tx=tx)


def overfit():
    labels = generator.integers(0, 3, len(Y)) if IS_FAULTY else Y
    split = 4 * BATCH if IS_FAULTY else len(X) // 2
    network = Network(widths=(128 if IS_FAULTY else 8,))
    tx = optax.adam(0.01 if IS_FAULTY else 0.001)
    fit(network, X[:split], labels[:split], tx, held=(X[split:], labels[split:]))


globals()[FAULT]()
print("the script went on")
