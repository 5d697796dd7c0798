"""A filter of phishing, whose file says -1 and 1.

Mistake: labels of -1 and 1 before binary_crossentropy.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

sites = np.random.choice([-1.0, 0.0, 1.0], size=(800, 20))
labels = np.sign(sites[:, :7].sum(1) + 0.5)
# repaired: labels = (labels + 1) / 2

model = Sequential()
model.add(Input((20,)))
model.add(Dense(20, activation="relu"))
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(sites, labels, epochs=4, batch_size=32, verbose=0)
