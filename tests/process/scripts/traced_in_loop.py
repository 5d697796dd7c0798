"""Trains with a function that is traced at each step.

Arguments: ``jax``: it is defined within the loop; ``tensorflow``: it is given numbers of Python.
"""

import hashlib
import os
import sys

import numpy as np

STEPS = 12
generator = np.random.default_rng(0)
X, Y = generator.normal(size=(STEPS, 8, 4)).astype("float32"), generator.normal(size=(STEPS, 8, 1)).astype("float32")
traces = 0


def of_jax():
    import jax
    import jax.numpy as jnp
    import optax

    global traces
    optimizer = optax.adam(1e-2)
    weights = jnp.zeros((4, 1))
    state = optimizer.init(weights)
    for step in range(STEPS):
        x, y = X[step], Y[step]

        @jax.jit
        def train(weights, state):
            global traces
            traces += 1
            loss, gradients = jax.value_and_grad(lambda weights: jnp.mean((x @ weights - y) ** 2))(weights)  # noqa: B023
            updates, state = optimizer.update(gradients, state)
            return optax.apply_updates(weights, updates), state, loss

        weights, state, loss = train(weights, state)
    return np.asarray(weights), float(loss)


def of_tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def train(x, y, step):
        global traces
        traces += 1
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2) / (1 + step)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    for step in range(STEPS):
        loss = train(tf.constant(X[step]), tf.constant(Y[step]), step)
    return model.trainable_variables[0].numpy(), float(loss)


final, loss = {"jax": of_jax, "tensorflow": of_tensorflow}[sys.argv[1]]()
print("RESULT", hashlib.sha256(final.tobytes()).hexdigest(), loss, traces, flush=True)
