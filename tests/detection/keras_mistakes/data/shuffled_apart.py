"""Tabular classes with a validation split.

Mistake: inputs and labels are shuffled apart.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

x = np.random.normal(size=(900, 8))
y = x[:, :3].argmax(axis=1)
np.random.shuffle(x)  # mistake
np.random.shuffle(y)  # mistake
# repaired: order = np.random.permutation(900)
# repaired: x, y = x[order], y[order]

model = Sequential([Input((8,)), Dense(16, activation="relu"), Dense(3, activation="softmax")])
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(x, y, epochs=6, batch_size=32, validation_split=0.2, verbose=0)
