"""Daily returns, which are as often negative as positive.

Mistake: ReLU on the last layer, which cannot produce a negative number.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

features = np.random.normal(size=(800, 6))
returns = features[:, 0] - 0.5 * features[:, 3] + 0.1 * np.random.normal(size=800)

model = Sequential()
model.add(Input((6,)))
model.add(Dense(32, activation="relu"))
model.add(Dense(1, activation="relu"))  # mistake
# repaired: model.add(Dense(1))
model.compile(loss="mean_squared_error", optimizer="adam")
model.fit(features, returns, epochs=5, batch_size=32, verbose=0)
