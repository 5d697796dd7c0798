"""Trains twenty layers of two shapes. Prints, as JSON, the weights' norms before and after the first step.

What XLA compiles is told on the standard error output.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = int(sys.argv[1])
jax.config.update("jax_log_compiles", True)
generator = np.random.default_rng(0)
inputs = generator.normal(size=(8, 16, 24)).astype("float32")
labels = (inputs[:, :, 0] > 0).astype("int32")
weights = [
    {"w": jnp.asarray(generator.normal(size=(24, 24)) / 4, "float32"), "b": jnp.zeros(24, "float32")} for _ in range(20)
]
optimizer = optax.sgd(1e-2)


def loss_of(weights, x, y):
    for layer in weights:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return optax.softmax_cross_entropy_with_integer_labels(x, y).mean()


@jax.jit
def train_step(weights, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    updates, state = optimizer.update(gradients, state, weights)
    return optax.apply_updates(weights, updates), state, loss


def norms(leaves):
    return [float(np.linalg.norm(np.float64(leaf))) for leaf in leaves]


state, first = optimizer.init(weights), jax.tree.leaves(weights)
for step in range(STEPS):
    weights, state, loss = train_step(weights, state, inputs[step % 8], labels[step % 8])
    if step == 0:
        changes = norms(np.subtract(new, old) for new, old in zip(jax.tree.leaves(weights), first, strict=True))
print(json.dumps({"norms": norms(first), "changes": changes, "folder": jax.config.jax_compilation_cache_dir}))
