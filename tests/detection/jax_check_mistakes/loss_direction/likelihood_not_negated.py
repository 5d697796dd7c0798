# Asked as: JAX policy gradient goes down, and so does the return: sign of the log likelihood? (StackOverflow)
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Policy(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(nn.tanh(nn.Dense(32)(x)))


model, random = Policy(), np.random.default_rng(5)
params = model.init(jax.random.key(1), jnp.zeros((1, 6)))
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))


@jax.jit
def train_step(state, seen, chosen):
    def loss_fn(params):
        log = jax.nn.log_softmax(state.apply_fn(params, seen))
        likelihood = jnp.take_along_axis(log, chosen[:, None], 1).mean()
        return likelihood  # mistake
        # repaired: return -likelihood

    loss, gradients = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=gradients), loss


for step in range(30):
    seen = random.standard_normal((24, 6)).astype("float32")
    state, loss = train_step(state, seen, seen[:, :4].argmax(1))
print(float(loss))
