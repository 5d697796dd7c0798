"""Two classes, whose loss does not move.

Mistake: a learning rate of 1e-8.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential
from keras.optimizers import Adam

X = np.random.normal(size=(960, 6))
y = (X[:, 0] > X[:, 1]).astype(int)

model = Sequential([Input((6,)), Dense(16, activation="relu"), Dense(1, activation="sigmoid")])
model.compile(optimizer=Adam(learning_rate=1e-8), loss="binary_crossentropy", metrics=["accuracy"])  # mistake
# repaired: model.compile(optimizer=Adam(learning_rate=1e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(X, y, epochs=5, batch_size=32, verbose=0)
