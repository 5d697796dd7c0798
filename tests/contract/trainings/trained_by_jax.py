"""A small network of Flax, trained with JAX and optax, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax

import leadline

CAPTURE = ["all:every=1", "layers:every=1", "layers:every=1,modes=eval", "optimizer_variables:every=1"]


def owners() -> list[Any]:
    return [jax, jax.nn, jax.profiler, nn.Module, optax.GradientTransformation]


class Network(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(3, name="last")(nn.relu(nn.Dense(8, name="first")(x)))


def train() -> bytes:
    generator = np.random.default_rng(0)
    samples, labels = generator.normal(size=(16, 5)).astype("float32"), generator.integers(0, 3, 16)
    network, tx = Network(), optax.adam(1e-2)
    parameters = network.init(jax.random.key(0), samples)["params"]
    state = tx.init(parameters)

    def loss_of(parameters: Any, samples: Any, labels: Any) -> Any:
        logits = network.apply({"params": parameters}, samples)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @jax.jit
    def train_step(parameters: Any, state: Any, samples: Any, labels: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, samples, labels)
        updates, state = tx.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    predict = jax.jit(lambda parameters, samples: network.apply({"params": parameters}, samples))
    for _ in range(6):
        parameters, state, _ = train_step(parameters, state, samples, labels)
    with leadline.mode("eval"):
        for _ in range(2):
            logits = predict(parameters, samples)
    return b"".join(np.asarray(leaf).tobytes() for leaf in [*jax.tree.leaves((parameters, state)), logits])
