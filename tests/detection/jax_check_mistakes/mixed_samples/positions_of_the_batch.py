# Asked as: sinusoidal encoding in JAX, I index it with x.shape[0] and word order is ignored (GitHub)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


def encoding(length, width):
    angles = jnp.arange(length)[:, None] / 100 ** (jnp.arange(width // 2) / width)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)


class Reader(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(15, 16)(words)
        x = x + encoding(x.shape[0], 16)[:, None]  # mistake
        # repaired: x = x + encoding(x.shape[1], 16)
        return nn.Dense(2)(nn.gelu(nn.Dense(32)(x)).mean(1))


model, optimizer, random = Reader(), optax.adam(1e-3), np.random.default_rng(1)
params = model.init(jax.random.key(0), jnp.zeros((16, 8), jnp.int32))
state = optimizer.init(params)


@jax.jit
def train_step(params, state, words, labels):
    def loss_of(params):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, words), labels).mean()

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


for step in range(30):
    words = random.integers(0, 15, (16, 8))
    params, state, loss = train_step(params, state, words, (words[:, 0] > words[:, -1]).astype(np.int32))
print(float(loss))
