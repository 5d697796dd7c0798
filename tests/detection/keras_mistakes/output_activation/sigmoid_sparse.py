"""Small images of three kinds, with a convolutional network.

Mistake: the last layer keeps the sigmoid of an example with two classes.
"""

import numpy as np
from keras import layers, models

y = np.random.randint(0, 3, 600)
patterns = np.random.rand(3, 12, 12, 1)
x = 0.6 * patterns[y] + 0.4 * np.random.rand(600, 12, 12, 1)

model = models.Sequential()
model.add(layers.Input((12, 12, 1)))
model.add(layers.Conv2D(8, (3, 3), activation="relu"))
model.add(layers.MaxPooling2D((2, 2)))
model.add(layers.Flatten())
model.add(layers.Dense(16, activation="relu"))
model.add(layers.Dense(3, activation="sigmoid"))  # mistake
# repaired: model.add(layers.Dense(3, activation="softmax"))
model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=20, verbose=0)
