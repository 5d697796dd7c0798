"""A regression on all samples at once.

Mistake: the batch is the whole data set, so that forty epochs are forty updates.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

x = np.random.normal(size=(1000, 8))
y = x[:, 0] * 2 - x[:, 1]
model = Sequential([Input((8,)), Dense(64, activation="relu"), Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, epochs=40, batch_size=len(x), verbose=0)  # mistake
# repaired: model.fit(x, y, epochs=40, batch_size=100, verbose=0)
