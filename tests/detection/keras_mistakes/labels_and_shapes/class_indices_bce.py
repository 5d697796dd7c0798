"""Three kinds of seeds.

Mistake: class indices 0, 1, 2 with one sigmoid unit and binary_crossentropy.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

seeds = np.random.normal(size=(630, 7))
kind = seeds[:, :3].argmax(axis=1)

model = Sequential()
model.add(Input((7,)))
model.add(Dense(14, activation="relu"))
model.add(Dense(1, activation="sigmoid"))  # mistake
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])  # mistake
# repaired: model.add(Dense(3, activation="softmax"))
# repaired: model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(seeds, kind, epochs=5, batch_size=30, verbose=0)
