"""An autoencoder of pixels from 0 to 1: sigmoid and binary_crossentropy, with labels between 0 and 1."""

import keras
import numpy as np
from keras.layers import Dense, Input

patterns = np.random.rand(5, 64)
x = (0.7 * patterns[np.random.randint(0, 5, 800)] + 0.3 * np.random.rand(800, 64)).astype("float32")

image = Input(shape=(64,))
code = Dense(12, activation="relu")(image)
decoded = Dense(64, activation="sigmoid")(code)
autoencoder = keras.Model(image, decoded)
autoencoder.compile(optimizer="adam", loss="binary_crossentropy")
autoencoder.fit(x, x, epochs=6, batch_size=32, shuffle=True, verbose=0)
