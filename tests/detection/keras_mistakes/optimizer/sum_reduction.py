"""A regression.

Mistake: the loss is the sum over the batch, at a rate for a mean.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(800, 10))
y = x @ np.random.normal(size=10)
model = keras.Sequential([Input((10,)), Dense(32, activation="relu"), Dense(1)])
loss = keras.losses.MeanSquaredError(reduction="sum")  # mistake
# repaired: loss = keras.losses.MeanSquaredError()
model.compile(optimizer=keras.optimizers.SGD(0.02), loss=loss)
model.fit(x, y, epochs=4, batch_size=40, verbose=0)
