"""XOR with noise.

Mistake: a squared error for two classes.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential
from keras.optimizers import SGD

bits = np.random.randint(0, 2, size=(640, 2))
inputs = bits + 0.1 * np.random.normal(size=(640, 2))
target = bits[:, 0] ^ bits[:, 1]

model = Sequential([Input((2,)), Dense(8, activation="tanh"), Dense(1, activation="sigmoid")])
model.compile(loss="mse", optimizer=SGD(learning_rate=0.1), metrics=["accuracy"])  # mistake
# repaired: model.compile(loss="binary_crossentropy", optimizer=SGD(learning_rate=0.1), metrics=["accuracy"])
model.fit(inputs, target, epochs=5, batch_size=32, verbose=0)
