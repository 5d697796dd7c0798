"""Clothing with a perceptron.

Mistake: the pixels are whole numbers from 0 to 255, as they were read.
"""

import keras
import numpy as np

y = np.random.randint(0, 5, 640)
outlines = np.random.rand(5, 10, 10)
x = (255 * (0.7 * outlines[y] + 0.3 * np.random.rand(640, 10, 10))).astype("uint8")
# repaired: x = x / 255.0

model = keras.Sequential()
model.add(keras.layers.Input((10, 10)))
model.add(keras.layers.Flatten())
model.add(keras.layers.Dense(32, activation="relu"))
model.add(keras.layers.Dense(5, activation="softmax"))
model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=32, verbose=0)
