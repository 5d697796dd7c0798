"""Fine-tuning of an encoder.

Mistake: the whole model is frozen, the new head included.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

x = np.random.normal(size=(640, 12))
y = (x[:, 0] > 0).astype(int)
encoder = keras.Sequential([Input((12,)), Dense(32, activation="relu"), Dense(16, activation="relu")])
model = keras.Sequential([Input((12,)), encoder, Dense(1, activation="sigmoid")])
model.trainable = False  # mistake
# repaired: encoder.trainable = False
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=32, verbose=0)
