"""Two inputs and two losses with weights, multi-label targets and momentum."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Both(nnx.Module):
    def __init__(self, rngs):
        self.words, self.table = nnx.Embed(50, 16, rngs=rngs), nnx.Linear(6, 16, rngs=rngs)
        self.tags, self.price = nnx.Linear(32, 5, rngs=rngs), nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, words, table):
        x = jnp.concatenate([self.words(words).mean(1), nnx.relu(self.table(table))], 1)
        return self.tags(x), self.price(x)[:, 0]


model = Both(nnx.Rngs(5))
optimizer = nnx.Optimizer(model, optax.sgd(0.02, momentum=0.9, nesterov=True), wrt=nnx.Param)
random = np.random.default_rng(5)


@nnx.jit
def train_step(model, optimizer, batch):
    def loss_fn(model):
        tags, price = model(batch["words"], batch["table"])
        of_tags = optax.sigmoid_binary_cross_entropy(tags, batch["tags"]).mean()
        return of_tags + 0.3 * optax.huber_loss(price, batch["price"]).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    words, table = random.integers(0, 50, (32, 12)), random.standard_normal((32, 6)).astype("float32")
    tags = np.stack([(words % 5 == at).sum(1) > 2 for at in range(5)], 1).astype("float32")
    loss = train_step(model, optimizer, {"words": words, "table": table, "tags": tags, "price": table[:, 0] ** 2})
print(float(loss))
