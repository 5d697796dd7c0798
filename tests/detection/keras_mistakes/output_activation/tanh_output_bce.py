"""Two moons.

Mistake: tanh on the last layer; binary_crossentropy takes probabilities.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

angle = np.pi * np.random.rand(600)
side = np.random.randint(0, 2, 600)
X = np.stack([np.cos(angle) + side - 0.5, (1 - 2 * side) * np.sin(angle) + 0.3 * side], axis=1)
X += 0.1 * np.random.normal(size=X.shape)

model = Sequential()
model.add(Input((2,)))
model.add(Dense(25, activation="tanh"))
model.add(Dense(1, activation="tanh"))  # mistake
# repaired: model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(X, side, epochs=6, batch_size=30, verbose=0)
