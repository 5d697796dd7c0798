"""An autoencoder with sampling, donated state, and the loss written by hand."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Autoencoder(nn.Module):
    @nn.compact
    def __call__(self, x, key):
        hidden = nn.relu(nn.Dense(32)(x))
        mean, log_variance = nn.Dense(4)(hidden), nn.Dense(4)(hidden)
        code = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        return nn.Dense(36)(nn.relu(nn.Dense(32)(code))), mean, log_variance


model, random = Autoencoder(), np.random.default_rng(3)
params = model.init(jax.random.key(1), jnp.zeros((1, 36)), jax.random.key(0))
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))


@partial(jax.jit, donate_argnums=0)
def train_step(state, images, key):
    def loss_fn(params):
        logits, mean, log_variance = state.apply_fn(params, images, key)
        rebuilt = optax.sigmoid_binary_cross_entropy(logits, images).sum(1).mean()
        kl = -0.5 * (1 + log_variance - mean**2 - jnp.exp(log_variance)).sum(1).mean()
        return rebuilt + kl

    loss, gradients = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=gradients), loss


for step in range(30):
    images = (random.random((32, 36)) < 0.3).astype("float32")
    state, loss = train_step(state, images, jax.random.key(step))
print(float(loss))
