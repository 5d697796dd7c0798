# Asked as: nn.softmax over axis 0 or 1 for attention weights over time in Flax? (StackOverflow)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Pooled(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(32)(x))
        weights = nn.softmax(nn.Dense(1)(x), axis=0)  # mistake
        # repaired: weights = nn.softmax(nn.Dense(1)(x), axis=1)
        return nn.Dense(1)((weights * x).sum(1))[:, 0]


model, random = Pooled(), np.random.default_rng(1)
params = model.init(jax.random.key(1), jnp.zeros((1, 10, 6)))
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        return optax.squared_error(state.apply_fn(params, x), y).mean()

    loss, gradients = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=gradients), loss


for step in range(30):
    x = random.standard_normal((24, 10, 6)).astype("float32")
    state, loss = train_step(state, x, x[:, :, 0].max(1))
print(float(loss))
