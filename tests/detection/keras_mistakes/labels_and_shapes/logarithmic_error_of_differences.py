"""Changes of a stock level, which fall as often as they rise.

Mistake: a squared logarithmic error, which clips labels below 0.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

features = np.random.normal(size=(800, 5))
changes = features[:, 1] - features[:, 4] + 0.1 * np.random.normal(size=800)

model = keras.Sequential([Input((5,)), Dense(32, activation="relu"), Dense(1)])
model.compile(optimizer="adam", loss="mean_squared_logarithmic_error")  # mistake
# repaired: model.compile(optimizer="adam", loss="mean_squared_error")
model.fit(features, changes, batch_size=32, epochs=5, verbose=0)
