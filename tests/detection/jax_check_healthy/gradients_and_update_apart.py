"""A recurrent network over series, with the gradients and the update compiled apart."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Series(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.RNN(nn.GRUCell(16))(x)[:, -1])[:, 0]


model, random = Series(), np.random.default_rng(6)
params = model.init(jax.random.key(1), jnp.zeros((1, 10, 3)))
optimizer = optax.rmsprop(1e-3)
opt_state = optimizer.init(params)


@jax.jit
def gradients_of(params, x, y):
    return jax.value_and_grad(lambda p: optax.l2_loss(model.apply(p, x), y).mean())(params)


@jax.jit
def update(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


for step in range(30):
    x = random.standard_normal((24, 10, 3)).astype("float32")
    loss, gradients = gradients_of(params, x, x[:, :, 0].mean(1))
    params, opt_state = update(params, opt_state, gradients)
print(float(loss))
