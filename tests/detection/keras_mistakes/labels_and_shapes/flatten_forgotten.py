"""A number from a window of eight measurements of four sensors.

Mistake: the layer Flatten was forgotten, and each label is compared with eight outputs.
"""

import keras
import numpy as np

windows = np.random.normal(size=(640, 8, 4))
level = windows[:, :, 0].mean(axis=1, keepdims=True) * 3

model = keras.models.Sequential()
model.add(keras.layers.Input((8, 4)))
# repaired: model.add(keras.layers.Flatten())
model.add(keras.layers.Dense(16, activation="relu"))
model.add(keras.layers.Dense(1))
model.compile(optimizer="adam", loss="mse")
model.fit(windows, level, epochs=5, batch_size=32, verbose=0)
