"""Kinds of wine, with labels in one-hot form.

Mistake: the softmax behind the last layer was forgotten.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

data = np.random.normal(size=(640, 13)).astype("float32")
kinds = keras.utils.to_categorical(data[:, :3].argmax(1), num_classes=3)

inputs = Input(shape=(13,))
h = Dense(24, activation="relu")(inputs)
h = Dense(24, activation="relu")(h)
outputs = Dense(3)(h)  # mistake
# repaired: outputs = Dense(3, activation="softmax")(h)
model = keras.Model(inputs, outputs)
model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
model.fit(data, kinds, epochs=5, batch_size=32, verbose=0)
