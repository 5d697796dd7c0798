"""A linear regression that ends in NaN.

Mistake: the learning rate is far too high for these inputs.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(640, 20))
y = x @ np.random.normal(size=20)

model = keras.Sequential([Input((20,)), Dense(16, activation="relu"), Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(learning_rate=0.8), loss="mse")  # mistake
# repaired: model.compile(optimizer=keras.optimizers.SGD(learning_rate=0.01), loss="mse")
model.fit(x, y, epochs=5, batch_size=32, verbose=0)
