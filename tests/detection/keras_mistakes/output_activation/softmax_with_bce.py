"""Topics of news.

Mistake: binary_crossentropy on the softmax of six classes; its accuracy looks high.
"""

import keras
import numpy as np
from keras.layers import Dense, Dropout, Input

topic = np.random.randint(0, 6, 900)
counts = np.random.poisson(0.3, size=(900, 40)) + (np.arange(40) % 6 == topic[:, None])
counts = counts / counts.std()
one_hot = keras.utils.to_categorical(topic, 6)

model = keras.Sequential()
model.add(Input((40,)))
model.add(Dense(32, activation="relu"))
model.add(Dropout(0.3))
model.add(Dense(6, activation="softmax"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])  # mistake
# repaired: model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(counts, one_hot, epochs=5, batch_size=32, verbose=0)
