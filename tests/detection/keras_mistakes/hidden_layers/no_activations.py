"""Cancer cells, benign or not.

Mistake: the hidden layers have no activation.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

cells = np.random.normal(size=(640, 9))
malignant = (np.abs(cells[:, 0]) + np.abs(cells[:, 1]) > 1.5).astype(int)

model = Sequential()
model.add(Input((9,)))
model.add(Dense(32))  # mistake
model.add(Dense(16))  # mistake
# repaired: model.add(Dense(32, activation="relu"))
# repaired: model.add(Dense(16, activation="relu"))
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(cells, malignant, epochs=5, batch_size=32, verbose=0)
