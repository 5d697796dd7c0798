"""Four classes.

Mistake: a learning rate of 1 for Adam.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(960, 8))
y = x[:, :4].argmax(1)

model = keras.Sequential()
model.add(Input((8,)))
model.add(Dense(64, activation="relu"))
model.add(Dense(32, activation="relu"))
model.add(Dense(4, activation="softmax"))
model.compile(keras.optimizers.Adam(1.0), "sparse_categorical_crossentropy", metrics=["accuracy"])  # mistake
# repaired: model.compile(keras.optimizers.Adam(0.001), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3, batch_size=32, verbose=0)
