"""Digits as flat vectors.

Mistake: ReLU on the last layer, as on all others.
"""

import keras
import numpy as np

masks = (np.random.rand(10, 64) < 0.3).astype("float32")
digits = np.random.randint(0, 10, 1000)
x_train = (0.8 * masks[digits] + 0.2 * np.random.rand(1000, 64)).astype("float32")
y_train = keras.utils.to_categorical(digits, 10)

model = keras.models.Sequential()
model.add(keras.layers.Input((64,)))
model.add(keras.layers.Dense(64, activation="relu"))
model.add(keras.layers.Dense(32, activation="relu"))
model.add(keras.layers.Dense(10, activation="relu"))  # mistake
# repaired: model.add(keras.layers.Dense(10, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=4, batch_size=32, verbose=0)
