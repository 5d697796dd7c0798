"""A regression of positive numbers.

Mistake: the last ReLU starts so far below zero that it has no gradient.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.rand(640, 5)
y = x.sum(axis=1)

model = keras.Sequential()
model.add(Input((5,)))
model.add(Dense(16, activation="relu"))
model.add(Dense(1, activation="relu", bias_initializer=keras.initializers.Constant(-8)))  # mistake
# repaired: model.add(Dense(1))
model.compile(optimizer="sgd", loss="mse")
model.fit(x, y, epochs=5, batch_size=32, verbose=0)
