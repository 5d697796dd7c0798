"""A binary classifier of radar echoes.

Mistake: categorical_crossentropy over a single unit, which is constant.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

echo = np.random.normal(size=(640, 10))
target = (echo[:, 0] * echo[:, 1] > 0).astype("float32").reshape(-1, 1)

model = Sequential()
model.add(Input((10,)))
model.add(Dense(24, activation="relu"))
model.add(Dense(1, activation="sigmoid"))
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])  # mistake
# repaired: model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(echo, target, epochs=6, batch_size=32, verbose=0)
