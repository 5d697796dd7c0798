"""A small language model in Flax NNX, gradients accumulated by optax.MultiSteps."""

import sys

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
V = 20


class LM(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(V, 32, rngs=rngs)
        self.position = nnx.Embed(16, 32, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
        self.norm1, self.norm2 = nnx.LayerNorm(32, rngs=rngs), nnx.LayerNorm(32, rngs=rngs)
        self.up, self.down = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)
        self.head = nnx.Linear(32, V, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens) + self.position(jnp.arange(tokens.shape[1]))
        x = x + self.attention(self.norm1(x), mask=nnx.make_causal_mask(tokens))
        return self.head(x + self.down(nnx.gelu(self.up(self.norm2(x)))))


model = LM(nnx.Rngs(int(sys.argv[2])))
optimizer = nnx.Optimizer(model, optax.MultiSteps(optax.adamw(5e-3), every_k_schedule=2), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, tokens):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:]).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


losses = []
for step in range(steps):
    tokens = (rng.integers(0, V, (16, 1)) + rng.integers(1, 4, (16, 1)) * np.arange(13)) % V
    losses.append(float(train_step(model, optimizer, jnp.asarray(tokens))))
    if step % 50 == 0:
        print(step, losses[-1])
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
