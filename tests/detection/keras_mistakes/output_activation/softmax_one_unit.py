"""A binary classifier of patients.

Mistake: softmax over one output unit, which is always 1.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

X = np.random.normal(size=(640, 8))
y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)

model = Sequential()
model.add(Input(shape=(8,)))
model.add(Dense(12, activation="relu"))
model.add(Dense(8, activation="relu"))
model.add(Dense(1, activation="softmax"))  # mistake
# repaired: model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(X, y, epochs=6, batch_size=32, verbose=0)
print(model.evaluate(X, y, verbose=0))
