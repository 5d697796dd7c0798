"""Two classes.

Mistake: a learning rate of 0.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(640, 6))
y = (x.sum(1) > 0).astype(int)
model = keras.Sequential([Input((6,)), Dense(16, activation="relu"), Dense(1, activation="sigmoid")])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="binary_crossentropy")
model.optimizer.learning_rate = 1 // 10  # mistake
# repaired: model.optimizer.learning_rate = 1 / 10
model.fit(x, y, epochs=4, batch_size=32, verbose=0)
