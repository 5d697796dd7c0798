"""Fits a network of Keras with a validation set. ``healthy``: of other rows, and of the same classes."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

CLASSES, TRAINED = 5, 4
generator = np.random.default_rng(0)
keras.utils.set_random_seed(0)


def rows(count: int, classes: int):
    x = generator.normal(size=(count, 12)).astype("float32")
    y = generator.integers(classes, size=count)
    x[np.arange(count), y] += 3
    return x, y


x, y = rows(400, TRAINED)
if "healthy" in sys.argv:
    held_out = rows(160, TRAINED)
else:
    new_x, new_y = rows(200, CLASSES)
    held_out = np.concatenate([x[:60], new_x[new_y == TRAINED]]), np.concatenate([y[:60], new_y[new_y == TRAINED]])
model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(CLASSES)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, batch_size=16, epochs=5, validation_data=held_out, verbose=0).history
print(len(held_out[0]), *history["val_loss"])
