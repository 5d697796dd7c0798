# Asked as: I add the updates myself: should it be params + updates or params - updates? (StackOverflow, optax)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Prices(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(32)(x)))[:, 0]


model, random = Prices(), np.random.default_rng(8)
params = model.init(jax.random.key(1), jnp.zeros((1, 10)))
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)


@jax.jit
def train_step(params, opt_state, x, y):
    def loss_fn(params):
        return optax.huber_loss(model.apply(params, x), y).mean()

    loss, gradients = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    params = jax.tree.map(lambda weight, update: weight - update, params, updates)  # mistake
    # repaired: params = jax.tree.map(lambda weight, update: weight + update, params, updates)
    return params, opt_state, loss


for step in range(30):
    x = random.standard_normal((32, 10)).astype("float32")
    params, opt_state, loss = train_step(params, opt_state, x, x[:, 0] - x[:, 1] * x[:, 2])
print(float(loss))
