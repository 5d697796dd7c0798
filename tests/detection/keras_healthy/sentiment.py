"""Reviews as numbers of words, padded with zeros: an embedding and an LSTM."""

import keras
import numpy as np
from keras import layers

words = np.random.randint(1, 200, size=(600, 20))
words[np.random.rand(600, 20) < 0.2] = 0
positive = ((words > 150).sum(1) > (words > 0).sum(1) * 0.25).astype("int32")

model = keras.Sequential()
model.add(layers.Input((20,)))
model.add(layers.Embedding(200, 16, mask_zero=False))
model.add(layers.LSTM(16, dropout=0.1))
model.add(layers.Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
model.fit(words, positive, batch_size=20, epochs=4, validation_split=0.1, verbose=0)
