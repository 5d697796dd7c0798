"""Fit a model of Keras with a validation set, and print the history of its losses and accuracies as JSON."""

import json

import keras
import numpy as np

keras.utils.set_random_seed(0)
generator = np.random.default_rng(0)
inputs = generator.normal(size=(96, 8)).astype("float32")
labels = (inputs[:, 0] > 0).astype("int64")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
history = model.fit(inputs, labels, validation_split=1 / 3, epochs=3, batch_size=16, verbose=0)
print(json.dumps({name: [float(value) for value in values] for name, values in history.history.items()}))
