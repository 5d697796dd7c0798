"""Two classes with a deep network.

Mistake: twelve layers of sigmoids, through which hardly any gradient comes.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential
from keras.optimizers import SGD

x = np.random.normal(size=(800, 10))
y = (x[:, 0] + x[:, 1] > 0).astype(int)

model = Sequential()
model.add(Input((10,)))
for _ in range(12):
    model.add(Dense(16, activation="sigmoid"))  # mistake
    # repaired: model.add(Dense(16, activation="relu", kernel_initializer="he_normal"))
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer=SGD(0.05), metrics=["accuracy"])
model.fit(x, y, epochs=8, batch_size=32, validation_split=0.2, verbose=0)
