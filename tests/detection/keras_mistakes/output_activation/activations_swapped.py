"""Kinds of flowers.

Mistake: softmax in the hidden layers and ReLU on the last one, instead of the reverse.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

X = np.random.normal(size=(600, 4))
Y = keras.utils.to_categorical(X[:, :3].argmax(1), 3)

model = keras.models.Sequential()
model.add(Input((4,)))
model.add(Dense(16, activation="softmax"))  # mistake
model.add(Dense(3, activation="relu"))  # mistake
# repaired: model.add(Dense(16, activation="relu"))
# repaired: model.add(Dense(3, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(X, Y, epochs=8, batch_size=30, verbose=0)
