"""A variational autoencoder with add_loss in a layer of its own."""

import sys

import keras
import numpy as np
from keras import layers, ops

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))


class Sampling(layers.Layer):
    def __init__(self, **more):
        super().__init__(**more)
        self.seed = keras.random.SeedGenerator(1)

    def call(self, inputs):
        mean, log_var = inputs
        self.add_loss(-0.02 * ops.mean(ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=1)))
        return mean + ops.exp(0.5 * log_var) * keras.random.normal(ops.shape(mean), seed=self.seed)


centre = np.random.uniform(0, 6, size=(800, 2, 1, 1))
grid = np.stack(np.meshgrid(np.arange(6), np.arange(6), indexing="ij"))
x = np.exp(-((grid - centre) ** 2).sum(1) / 2).reshape(800, 36).astype("float32")
inputs = keras.Input((36,))
h = layers.Dense(64, activation="relu")(inputs)
z = Sampling()([layers.Dense(4)(h), layers.Dense(4)(h)])
h = layers.Dense(64, activation="relu")(z)
model = keras.Model(inputs, layers.Dense(36, activation="sigmoid")(h))
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
history = model.fit(x, x, epochs=max(3, steps // 20), batch_size=40, verbose=0).history["loss"]
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
