"""The wear of tools; its accuracy stays 0.

Mistake: the metric accuracy for a regression.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

sensors = np.random.normal(size=(800, 9))
wear = np.tanh(sensors[:, 0]) + 0.3 * sensors[:, 1]

model = Sequential()
model.add(Input((9,)))
model.add(Dense(32, activation="relu"))
model.add(Dense(1))
model.compile(loss="mean_squared_error", optimizer="adam", metrics=["accuracy"])  # mistake
# repaired: model.compile(loss="mean_squared_error", optimizer="adam", metrics=["mae"])
model.fit(sensors, wear, epochs=5, batch_size=32, verbose=0)
