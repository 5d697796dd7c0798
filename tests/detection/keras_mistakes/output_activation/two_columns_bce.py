"""Spam or not, with labels in one-hot form.

Mistake: binary_crossentropy over two sigmoid units of which one is true.
"""

import keras
import numpy as np
from keras.layers import Dense, Input

words = (np.random.rand(640, 30) < 0.2).astype("float32")
spam = (words[:, :5].sum(1) > words[:, 5:10].sum(1)).astype(int)
labels = keras.utils.to_categorical(spam, 2)

model = keras.Sequential([Input((30,)), Dense(16, activation="relu")])
model.add(Dense(2, activation="sigmoid"))  # mistake
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])  # mistake
# repaired: model.add(Dense(2, activation="softmax"))
# repaired: model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
model.fit(words, labels, epochs=4, batch_size=32, verbose=0)
