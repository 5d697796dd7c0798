"""Ten digits, in the manner of an old tutorial.

Mistake: a squared error for a classification.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

masks = np.random.rand(10, 49)
digit = np.random.randint(0, 10, 960)
x = 0.5 * masks[digit] + 0.5 * np.random.rand(960, 49)
y = keras.utils.to_categorical(digit, 10)

model = keras.Sequential([Input((49,)), Dense(32, activation="sigmoid"), Dense(10, activation="softmax")])
model.compile(optimizer="sgd", loss="mean_squared_error", metrics=["accuracy"])  # mistake
# repaired: model.compile(optimizer="sgd", loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, batch_size=32, verbose=0)
