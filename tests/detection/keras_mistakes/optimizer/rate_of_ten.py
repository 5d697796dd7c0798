"""Two classes from a table.

Mistake: a learning rate of 10.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(960, 12))
y = (x[:, 0] * x[:, 1] > 0).astype(int)

model = keras.Sequential([Input((12,)), Dense(32, activation="relu"), Dense(1, activation="sigmoid")])
rate = 10.0  # mistake
# repaired: rate = 0.001
model.compile(optimizer=keras.optimizers.Adam(learning_rate=rate), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3, batch_size=16, verbose=0)
