"""A network of plain arrays and gradient descent by hand, as in the first pages of the documentation of JAX."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(4)
sizes = [(8, 32), (32, 32), (32, 1)]
params = [
    {"w": random.standard_normal(s).astype("float32") / s[0] ** 0.5, "b": np.zeros(s[1], "float32")} for s in sizes
]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ params[-1]["w"] + params[-1]["b"])[:, 0]


@jax.jit
def update(params, x, y):
    loss, gradients = jax.value_and_grad(lambda p: jnp.mean((predict(p, x) - y) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), loss


for step in range(30):
    x = random.standard_normal((32, 8)).astype("float32")
    params, loss = update(params, x, np.sin(x[:, 0]) + x[:, 1])
print(float(loss))
