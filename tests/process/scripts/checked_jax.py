"""A training with JAX for ``leadline check``, with dropout and donated arrays; prints a digest of all state.

Usage: checked_jax.py [nnx | linen | eager].
"""

import hashlib
import sys
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

KIND = sys.argv[1]
random = np.random.default_rng(3)
table = random.standard_normal((160, 12)).astype("float32")
labels = table[:, :3].argmax(1)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.Dropout(0.2, deterministic=False)(nn.relu(nn.Dense(16)(x))))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(12, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.first(x))))


def step_of_linen(params, state, x, y, key):
    def loss_fn(params):
        logits = model.apply(params, x, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, gradients = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


@nnx.jit
def step_of_nnx(model, optimizer, x, y):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


batches = [(table[at : at + 16], labels[at : at + 16]) for at in range(0, 160, 16)]
results = []
if KIND == "nnx":
    model = Nnx(nnx.Rngs(params=1, dropout=2))
    held = nnx.Optimizer(model, optimizer, wrt=nnx.Param)
    results = [float(step_of_nnx(model, held, jnp.asarray(x), jnp.asarray(y))) for x, y in batches]
    state = [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in jax.tree.leaves((nnx.state(model), nnx.state(held)))
    ]
else:
    model = Linen()
    params = model.init({"params": jax.random.key(1), "dropout": jax.random.key(2)}, jnp.zeros((1, 12)))
    opt_state = optimizer.init(params)
    step = step_of_linen if KIND == "eager" else partial(jax.jit, donate_argnums=(0, 1))(step_of_linen)
    for at, (x, y) in enumerate(batches):
        params, opt_state, loss = step(params, opt_state, x, y, jax.random.key(at))
        results.append(float(loss))
    state = jax.tree.leaves((params, opt_state))
digest = hashlib.sha256(b"".join(np.asarray(value).tobytes() for value in (*state, np.array(results))))
print("digest", digest.hexdigest(), file=sys.stderr)
