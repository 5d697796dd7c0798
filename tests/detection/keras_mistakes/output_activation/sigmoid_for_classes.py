"""Four kinds of plants from measurements.

Mistake: sigmoid in place of softmax for classes that exclude each other.
"""

import keras
import numpy as np
from keras import layers

x = np.random.normal(size=(800, 6))
labels = np.argmax(x[:, :4], axis=1)
y = keras.utils.to_categorical(labels, 4)

model = keras.Sequential(
    [
        layers.Input((6,)),
        layers.Dense(32, activation="relu"),
        layers.Dense(4, activation="sigmoid"),  # mistake
        # repaired: layers.Dense(4, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=6, batch_size=32, verbose=0)
