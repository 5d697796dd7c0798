# Asked as: my index is drawn once per batch, all samples are the same picture (StackOverflow)
import numpy as np
import optax
from flax import nnx


class Mean(nnx.Module):
    def __init__(self, rngs):
        self.conv, self.head = nnx.Conv(1, 8, (3, 3), rngs=rngs), nnx.Linear(800, 1, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.conv(x)).reshape(len(x), -1))[:, 0]


model = Mean(nnx.Rngs(10))
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
random = np.random.default_rng(10)
pictures = random.random((64, 10, 10, 1)).astype("float32")


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss_fn(model):
        return optax.squared_error(model(x), y).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    at = np.full(16, random.integers(0, 64))  # mistake
    # repaired: at = random.integers(0, 64, 16)
    loss = train_step(model, optimizer, pictures[at], 10 * pictures[at].std((1, 2, 3)))
print(float(loss))
