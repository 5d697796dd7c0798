"""Trains with Keras on JAX, of which the script imports only Keras, with a validation that is watched upwards."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

generator = np.random.default_rng(0)
x, y = generator.normal(size=(32, 8)).astype("float32"), generator.integers(0, 3, 32)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
stopping = keras.callbacks.EarlyStopping(monitor="val_loss", mode="max", patience=8)
model.fit(x, y, batch_size=8, epochs=8, verbose=0, validation_data=(x, y), callbacks=[stopping])
