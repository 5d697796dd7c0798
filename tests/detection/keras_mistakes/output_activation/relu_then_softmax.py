"""Five activities from sensors.

Mistake: the last layer has a ReLU of its own before the softmax.
"""

import keras
import numpy as np
from keras.layers import Activation, Dense, Input

signals = np.random.normal(size=(640, 9))
activity = keras.utils.to_categorical(signals[:, :5].argmax(1))

model = keras.Sequential()
model.add(Input((9,)))
model.add(Dense(32))
model.add(Activation("relu"))
model.add(Dense(5, activation="relu"))  # mistake
# repaired: model.add(Dense(5))
model.add(Activation("softmax"))
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(signals, activity, epochs=5, batch_size=32, verbose=0)
