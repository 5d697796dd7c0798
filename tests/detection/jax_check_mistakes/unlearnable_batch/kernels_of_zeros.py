# Asked as: kernel_init zeros in Flax, the loss stays at log(classes) (StackOverflow)
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

start = nnx.initializers.zeros_init()  # mistake
# repaired: start = nnx.initializers.lecun_normal()


class Classifier(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(10, 32, kernel_init=start, rngs=rngs)
        self.second = nnx.Linear(32, 32, kernel_init=start, rngs=rngs)
        self.head = nnx.Linear(32, 4, kernel_init=start, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.second(nnx.relu(self.first(x)))))


model = Classifier(nnx.Rngs(6))
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
random = np.random.default_rng(6)


@nnx.jit
def train_step(model, optimizer, x, labels):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), labels).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for step in range(30):
    x = random.standard_normal((32, 10)).astype("float32")
    loss = train_step(model, optimizer, x, jnp.asarray((x[:, 0] > 0) + 2 * (x[:, 1] > 0)))
print(float(loss))
