"""Trains small models of Flax, Equinox and plain trees with losses of optax, each with one mistake and without it.

Argument: the folder of the runs. Prints the digest of the weights of each training, bare and watched.
"""

# ruff: noqa: E402 - Leadline comes before Flax, which takes functions of jax.nn
from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from leadline.hook import StandaloneRun

first = StandaloneRun(out=sys.argv[1], name="first", preset=None, capture=["losses"])

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

first.close()
SAMPLES = 16
generator = np.random.default_rng(0)
X = generator.normal(size=(SAMPLES, 6)).astype("float32")
CLASSES = X[:, :3].argmax(1)
ONE_HOT = np.eye(3, dtype="float32")[CLASSES]
SEVERAL = (X[:, :3] > -0.5).astype("float32")
TARGETS = X[:, 0] - X[:, 1]
KEY = jax.random.key(0)


class Network(nn.Module):
    """Two layers of Flax, and what comes after them."""

    outputs: int
    after: Callable[[Any], Any] = staticmethod(lambda outputs: outputs)

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return self.after(nn.Dense(self.outputs)(nn.relu(nn.Dense(8)(x))))


class WithDropout(nn.Module):
    is_behind: bool

    @nn.compact
    def __call__(self, x: Any) -> Any:
        dropout = nn.Dropout(0.3, deterministic=False)
        x = nn.relu(nn.Dense(8)(x))
        return dropout(nn.Dense(3)(x)) if self.is_behind else nn.Dense(3)(dropout(x))


def fit(parameters: Any, loss_of: Callable[[Any], Any]) -> list[Any]:
    tx = optax.adam(1e-2)
    state = tx.init(parameters)

    @jax.jit
    def train_step(parameters: Any, state: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters)
        updates, state = tx.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    for _ in range(3):
        parameters, state, _ = train_step(parameters, state)
    return jax.tree.leaves(parameters)


def flax(network: nn.Module, loss_of: Callable[[Any], Any]) -> list[Any]:
    rngs = {"params": KEY, "dropout": KEY}
    parameters = network.init(rngs, X)["params"]
    return fit(parameters, lambda tree: loss_of(network.apply({"params": tree}, X, rngs={"dropout": KEY})).mean())


def integer_labels(logits: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, CLASSES)


def not_logits(is_mistaken: bool) -> list[Any]:
    return flax(Network(3, nn.softmax) if is_mistaken else Network(3), integer_labels)


def sigmoid_twice(is_mistaken: bool) -> list[Any]:
    network = Network(3, nn.sigmoid) if is_mistaken else Network(3)
    return flax(network, lambda outputs: optax.losses.sigmoid_binary_cross_entropy(outputs, SEVERAL))


def softmax_of_one(is_mistaken: bool) -> list[Any]:
    if is_mistaken:
        return flax(Network(1), lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, 0 * CLASSES))
    return flax(Network(1), lambda logits: optax.sigmoid_binary_cross_entropy(logits[:, 0], SEVERAL[:, 0]))


def not_log_probabilities(is_mistaken: bool) -> list[Any]:
    network = Network(3, nn.softmax) if is_mistaken else Network(3, lambda logits: jnp.log(nn.softmax(logits)))
    return flax(network, lambda outputs: optax.kl_divergence(outputs, targets=ONE_HOT))


def softmax_over_batch(is_mistaken: bool) -> list[Any]:
    axis = 0 if is_mistaken else -1
    return flax(Network(3, lambda x: nn.log_softmax(x, axis)), lambda outputs: optax.kl_divergence(outputs, ONE_HOT))


def negated(is_mistaken: bool) -> list[Any]:
    """A reward of reinforcement learning is no mistake: its sign belongs to it."""
    if is_mistaken:
        return flax(Network(3), lambda logits: -integer_labels(logits))
    return flax(Network(3), lambda logits: -(TARGETS * integer_labels(logits)))


def swapped(is_mistaken: bool) -> list[Any]:
    loss = optax.sigmoid_binary_cross_entropy
    return flax(Network(3), lambda logits: loss(SEVERAL, logits) if is_mistaken else loss(logits, SEVERAL))


def broadcast(is_mistaken: bool) -> list[Any]:
    """With a model of Equinox."""
    model = eqx.nn.MLP(6, 1, 8, 1, key=KEY)
    arrays, rest = eqx.partition(model, eqx.is_array)

    def loss_of(arrays: Any) -> Any:
        outputs = jax.vmap(eqx.combine(arrays, rest))(X)
        return optax.huber_loss(outputs if is_mistaken else outputs[:, 0], TARGETS).mean()

    return fit(arrays, loss_of)


def impossible_labels(is_mistaken: bool) -> list[Any]:
    """With a model of Flax NNX."""
    hidden = nnx.Linear(6, 3, rngs=nnx.Rngs(0))
    graph, state = nnx.split(hidden)
    labels = 2 * SEVERAL - 1 if is_mistaken else SEVERAL
    return fit(state, lambda tree: optax.sigmoid_binary_cross_entropy(nnx.merge(graph, tree)(X), labels).mean())


def dropout(is_mistaken: bool) -> list[Any]:
    return flax(WithDropout(is_mistaken), integer_labels)


def labels_out_of_reach(is_mistaken: bool) -> list[Any]:
    """A plain tree, with a loss of each sample by ``jax.vmap``."""
    parameters = {"w": jnp.asarray(X[:6].T @ X[:6] / 6), "b": jnp.zeros(6), "v": jnp.ones(6)}

    def output(tree: Any, x: Any) -> Any:
        result = jnp.tanh(x @ tree["w"] + tree["b"]) @ tree["v"]
        return jnp.maximum(result, 0) if is_mistaken else result

    def loss_of(tree: Any) -> Any:
        outputs = jax.vmap(output, (None, 0))(tree, X)
        return jax.vmap(optax.l2_loss)(outputs, TARGETS).mean()

    return fit(parameters, loss_of)


def several_classes(is_mistaken: bool) -> list[Any]:
    loss = optax.softmax_cross_entropy if is_mistaken else optax.sigmoid_binary_cross_entropy
    return flax(Network(3), lambda logits: loss(logits, SEVERAL))


def regression_of_classes(is_mistaken: bool) -> list[Any]:
    if is_mistaken:
        return flax(Network(3), lambda outputs: optax.squared_error(outputs, ONE_HOT))
    return flax(Network(3), lambda outputs: optax.softmax_cross_entropy(logits=outputs, labels=ONE_HOT))


TRAININGS = [not_logits, sigmoid_twice, softmax_of_one, not_log_probabilities, softmax_over_batch, negated, swapped]
TRAININGS += [broadcast, impossible_labels, dropout, labels_out_of_reach, several_classes, regression_of_classes]


def digest(leaves: list[Any]) -> str:
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()


results = {}
for train in TRAININGS:
    for is_mistaken in (True, False):
        name = f"{train.__name__}-{'mistaken' if is_mistaken else 'correct'}"
        bare = digest(train(is_mistaken))
        run = StandaloneRun(out=sys.argv[1], name=name, preset=None, capture=["checks:every=1"], budget="off")
        results[name] = {"bare": bare, "watched": digest(train(is_mistaken))}
        run.close()
sys.stdout.write("\n" + json.dumps(results) + "\n")
