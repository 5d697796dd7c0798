"""Two classes with the default batch size.

Mistake: one epoch over a few samples.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

x = np.random.normal(size=(1280, 10))
y = (x[:, 0] - x[:, 1] > 0).astype(int)
model = Sequential([Input((10,)), Dense(32, activation="relu"), Dense(1, activation="sigmoid")])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=1, verbose=0)  # mistake
# repaired: model.fit(x, y, epochs=8, verbose=0)
