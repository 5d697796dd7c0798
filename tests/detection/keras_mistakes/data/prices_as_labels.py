"""Prices of houses.

Mistake: the prices are in dollars.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

houses = np.random.normal(size=(800, 7))
prices = 250000 + 60000 * houses[:, 0] + 30000 * houses[:, 1]
# repaired: prices = (prices - prices.mean()) / prices.std()

model = Sequential()
model.add(Input((7,)))
model.add(Dense(32, activation="relu"))
model.add(Dense(32, activation="relu"))
model.add(Dense(1))
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(houses, prices, epochs=4, batch_size=32, verbose=0)
