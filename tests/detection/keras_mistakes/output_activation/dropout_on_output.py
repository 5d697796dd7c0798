"""The strength of concrete, standardized.

Mistake: dropout behind the last layer.
"""

import numpy as np
from keras.layers import Dense, Dropout, Input
from keras.models import Sequential

mix = np.random.normal(size=(800, 8))
strength = mix @ np.random.normal(size=8) / 3

model = Sequential()
model.add(Input((8,)))
model.add(Dense(32, activation="relu"))
model.add(Dropout(0.2))
model.add(Dense(1))
model.add(Dropout(0.2))  # mistake
model.compile(loss="mae", optimizer="adam")
model.fit(mix, strength, epochs=4, batch_size=32, verbose=0)
