"""Digits with a convolutional network.

Mistake: the pixels are 0 to 255.
"""

import keras
import numpy as np
from keras.layers import Conv2D, Dense, Flatten, Input, MaxPooling2D

labels = np.random.randint(0, 10, 640)
strokes = np.random.rand(10, 14, 14, 1) < 0.3
pixels = (255 * (0.8 * strokes[labels] + 0.2 * np.random.rand(640, 14, 14, 1))).astype("uint8")
x_train = pixels.astype("float32")  # mistake
# repaired: x_train = pixels.astype("float32") / 255
y_train = keras.utils.to_categorical(labels, 10)

model = keras.models.Sequential()
model.add(Input((14, 14, 1)))
model.add(Conv2D(8, kernel_size=(3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Flatten())
model.add(Dense(10, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=4, verbose=0)
