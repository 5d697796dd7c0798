"""Measurements with gaps.

Mistake: the gaps are NaN.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

X = np.random.normal(size=(640, 6))
y = X[:, 0] - X[:, 1]
X[np.random.rand(640, 6) < 0.002] = np.nan
X[100, 2] = np.nan
# repaired: X = np.nan_to_num(X)

model = Sequential([Input((6,)), Dense(24, activation="relu"), Dense(1)])
model.compile(loss="mse", optimizer="adam")
model.fit(X, y, epochs=3, batch_size=32, verbose=0)
