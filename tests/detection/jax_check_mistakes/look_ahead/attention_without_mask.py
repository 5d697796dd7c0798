# Asked as: Flax nnx MultiHeadAttention without a mask: my language model has no loss and writes nonsense (GitHub, flax)
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Language(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(40, 32, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(num_heads=2, in_features=32, decode=False, rngs=rngs)
        self.norm, self.head = nnx.LayerNorm(32, rngs=rngs), nnx.Linear(32, 40, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        mask = None  # mistake
        # repaired: mask = nnx.make_causal_mask(tokens)
        x = x + self.attend(self.norm(x), mask=mask)
        return self.head(x)


model = Language(nnx.Rngs(2))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
random = np.random.default_rng(2)


@nnx.jit
def train_step(model, optimizer, given, following):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(given), following).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    tokens = random.integers(0, 40, (16, 17))
    loss = train_step(model, optimizer, jnp.asarray(tokens[:, :-1]), jnp.asarray(tokens[:, 1:]))
print(float(loss))
