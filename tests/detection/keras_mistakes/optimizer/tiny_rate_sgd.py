"""Three classes with SGD and a validation set.

Mistake: a learning rate of 1e-7.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(900, 6))
y = x[:, :3].argmax(1)

sgd = keras.optimizers.SGD(learning_rate=1e-7, momentum=0.9)  # mistake
# repaired: sgd = keras.optimizers.SGD(learning_rate=1e-2, momentum=0.9)
model = keras.Sequential([Input((6,)), Dense(24, activation="tanh"), Dense(3, activation="softmax")])
model.compile(optimizer=sgd, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=6, batch_size=32, validation_split=0.2, verbose=0)
