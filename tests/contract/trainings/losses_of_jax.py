"""Losses of optax that show every fact about a loss call, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

CAPTURE = ["checks:every=1"]


def owners() -> list[Any]:
    return [jax, jax.nn, optax, optax.losses]


def train() -> bytes:
    generator = np.random.default_rng(3)
    x, one_hot = generator.normal(size=(16, 5)).astype("float32"), np.eye(3, dtype="float32")[np.arange(16) % 3]
    weights = {"classes": jnp.asarray(generator.normal(size=(5, 3))), "number": jnp.asarray(generator.normal(size=5))}
    tx = optax.sgd(0.01)

    def loss_of(weights: Any, x: Any, one_hot: Any) -> Any:
        scores = x @ weights["classes"]
        loss = optax.softmax_cross_entropy(scores, one_hot).mean()
        loss = loss + optax.squared_error(jnp.tanh(x @ weights["number"]), x[:, 0]).mean()
        return loss + optax.losses.kl_divergence(jax.nn.log_softmax(scores), one_hot).mean()

    @jax.jit
    def train_step(weights: Any, state: Any, x: Any, one_hot: Any) -> Any:
        gradients = jax.grad(loss_of)(weights, x, one_hot)
        updates, state = tx.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    state = tx.init(weights)
    for _ in range(3):
        weights, state = train_step(weights, state, x, one_hot)
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(weights))
