# Asked as: optax.sgd explodes at the first step, what learning rate? (StackOverflow)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Prices(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(32)(x)))[:, 0]


model, random = Prices(), np.random.default_rng(7)
params = model.init(jax.random.key(1), jnp.zeros((1, 10)))
optimizer = optax.sgd(3.0)  # mistake
# repaired: optimizer = optax.sgd(0.03)
state = TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)


@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        return jnp.mean((state.apply_fn(params, batch["x"]) - batch["y"]) ** 2)

    loss, gradients = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=gradients), {"loss": loss}


for step in range(30):
    x = random.standard_normal((32, 10)).astype("float32")
    state, metrics = train_step(state, {"x": x, "y": x.sum(1)})
print(float(metrics["loss"]))
