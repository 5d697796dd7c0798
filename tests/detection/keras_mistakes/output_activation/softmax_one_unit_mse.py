"""The logical function XOR.

Mistake: softmax over one output unit, which is always 1.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential
from keras.optimizers import SGD

X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32")
y = np.array([[0], [1], [1], [0]], dtype="float32")

model = Sequential()
model.add(Input(shape=(2,)))
model.add(Dense(8, activation="tanh"))
model.add(Dense(1, activation="softmax"))  # mistake
# repaired: model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer=SGD(learning_rate=0.3))
model.fit(X, y, batch_size=4, epochs=250, verbose=0)
print(model.predict(X, verbose=0))
