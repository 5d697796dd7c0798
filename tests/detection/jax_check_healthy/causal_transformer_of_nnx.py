"""A causal transformer with NNX, whose labels are made of its tokens within the step."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Language(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(40, 32, rngs=rngs)
        self.places = nnx.Param(nnx.initializers.normal(0.02)(rngs.params(), (16, 32)))
        self.attend = nnx.MultiHeadAttention(num_heads=2, in_features=32, dropout_rate=0.1, decode=False, rngs=rngs)
        self.norm, self.head = nnx.LayerNorm(32, rngs=rngs), nnx.Linear(32, 40, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens) + self.places
        return self.head(x + self.attend(self.norm(x), mask=nnx.make_causal_mask(tokens), deterministic=False))


model = Language(nnx.Rngs(params=2, dropout=3))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
random = np.random.default_rng(2)


@nnx.jit
def train_step(model, optimizer, tokens):
    def loss_fn(model):
        logits = model(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    loss = train_step(model, optimizer, jnp.asarray(random.integers(0, 40, (16, 17))))
print(float(loss))
