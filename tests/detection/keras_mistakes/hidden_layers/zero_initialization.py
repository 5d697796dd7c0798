"""A function of one variable.

Mistake: all weights start at zero.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

x = np.random.uniform(-2, 2, (640, 1))
y = np.sin(2 * x)

model = Sequential()
model.add(Input((1,)))
model.add(Dense(32, kernel_initializer="zeros", activation="relu"))  # mistake
model.add(Dense(32, kernel_initializer="zeros", activation="relu"))  # mistake
model.add(Dense(1, kernel_initializer="zeros"))  # mistake
# repaired: model.add(Dense(32, activation="relu"))
# repaired: model.add(Dense(32, activation="relu"))
# repaired: model.add(Dense(1))
model.compile(loss="mse", optimizer="adam")
model.fit(x, y, epochs=6, batch_size=32, verbose=0)
