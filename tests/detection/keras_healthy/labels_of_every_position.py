"""Tags of words: a label for each position, and an output for each."""

import numpy as np
from keras import layers, models

words = np.random.randint(0, 50, size=(480, 8))
tags = words % 4

model = models.Sequential()
model.add(layers.Input((8,)))
model.add(layers.Embedding(50, 12))
model.add(layers.Bidirectional(layers.LSTM(10, return_sequences=True)))
model.add(layers.Dense(4, activation="softmax"))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(words, tags, epochs=6, batch_size=24, verbose=0)
