# Asked as: the second input has no effect on the output of my Flax module (StackOverflow)
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class TwoInputs(nnx.Module):
    def __init__(self, rngs):
        self.image, self.table = nnx.Linear(20, 16, rngs=rngs), nnx.Linear(5, 16, rngs=rngs)
        self.head = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, image, table):
        image, table = nnx.relu(self.image(image)), nnx.relu(self.table(table))
        joined = jnp.concatenate([image, image], 1)  # mistake
        # repaired: joined = jnp.concatenate([image, table], 1)
        return self.head(joined)[:, 0]


model = TwoInputs(nnx.Rngs(4))
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
random = np.random.default_rng(4)


@nnx.jit
def train_step(model, optimizer, batch):
    def loss_fn(model):
        return optax.squared_error(model(batch["image"], batch["table"]), batch["price"]).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    image, table = random.standard_normal((24, 20)), random.standard_normal((24, 5))
    batch = {"image": image, "table": table, "price": np.sin(image[:, 0]) + np.tanh(table[:, 1])}
    loss = train_step(model, optimizer, {name: value.astype("float32") for name, value in batch.items()})
print(float(loss))
