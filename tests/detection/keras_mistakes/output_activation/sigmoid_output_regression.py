"""The energy demand of buildings, standardized.

Mistake: sigmoid on the last layer of a regression.
"""

import keras
import numpy as np
from keras import layers

x = np.random.normal(size=(768, 8))
demand = 2 * x[:, 0] + x[:, 1] * x[:, 2]
demand = (demand - demand.mean()) / demand.std()

model = keras.Sequential([layers.Input((8,)), layers.Dense(40, activation="relu")])
model.add(layers.Dense(1, activation="sigmoid"))  # mistake
# repaired: model.add(layers.Dense(1, activation="linear"))
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="mse", metrics=["mae"])
model.fit(x, demand, epochs=4, batch_size=32, verbose=0)
