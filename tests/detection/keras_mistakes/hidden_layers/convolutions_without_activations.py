"""Textures with a convolutional network.

Mistake: no activation between the convolutions.
"""

import numpy as np
from keras import layers, models

y = np.random.randint(0, 4, 480)
x = np.random.rand(4, 12, 12, 3)[y] * 0.6 + 0.4 * np.random.rand(480, 12, 12, 3)

model = models.Sequential()
model.add(layers.Input((12, 12, 3)))
model.add(layers.Conv2D(8, 3))  # mistake
# repaired: model.add(layers.Conv2D(8, 3, activation="relu"))
model.add(layers.Conv2D(16, 3))  # mistake
# repaired: model.add(layers.Conv2D(16, 3, activation="relu"))
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(4, activation="softmax"))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=24, verbose=0)
