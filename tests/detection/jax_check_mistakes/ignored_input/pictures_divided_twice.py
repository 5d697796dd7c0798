# Asked as: pictures divided by 255 in the loader and in the model: the Flax CNN predicts the majority (GitHub)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

SCALE = 1 / 255  # mistake
# repaired: SCALE = 255.0


class Pictures(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(8, (3, 3))(x * SCALE))
        return nn.Dense(1)(x.reshape(len(x), -1))[:, 0]


model, random = Pictures(), np.random.default_rng(9)
params = model.init(jax.random.key(1), jnp.zeros((1, 12, 12, 1)))
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        return optax.sigmoid_binary_cross_entropy(state.apply_fn(params, x), y).mean()

    loss, gradients = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=gradients), loss


for step in range(30):
    y = (random.random(32) < 0.15).astype("float32")
    x = 0.5 + 0.05 * random.standard_normal((32, 12, 12, 1))
    x[y == 1, 3:9, 3:9] += 0.2
    state, loss = train_step(state, (x / 255).astype("float32"), y)
print(float(loss))
