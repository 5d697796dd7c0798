"""Clothing, with a loss that takes logits.

Mistake: softmax behind the last layer, and from_logits=True.
"""

import keras
import numpy as np

kinds = np.random.randint(0, 5, 640)
prototypes = np.random.rand(5, 8, 8)
images = (0.7 * prototypes[kinds] + 0.3 * np.random.rand(640, 8, 8)).astype("float32")

model = keras.Sequential(
    [
        keras.layers.Input((8, 8)),
        keras.layers.Flatten(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(5, activation="softmax"),  # mistake
        # repaired: keras.layers.Dense(5),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
model.fit(images, kinds, epochs=4, batch_size=32, verbose=0)
