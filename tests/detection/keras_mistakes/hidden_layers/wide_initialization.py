"""Ten classes from a table.

Mistake: weights are drawn with a standard deviation of 1.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(960, 50))
y = keras.utils.to_categorical(x[:, :10].argmax(1), 10)
wide = keras.initializers.RandomNormal(stddev=1.0)  # mistake
# repaired: wide = "glorot_uniform"

model = keras.Sequential([Input((50,))])
model.add(Dense(100, kernel_initializer=wide, activation="relu"))
model.add(Dense(100, kernel_initializer=wide, activation="relu"))
model.add(Dense(10, kernel_initializer=wide, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="sgd", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=32, verbose=0)
