"""Whether it rains tomorrow.

Mistake: ReLU on the last layer; binary_crossentropy takes probabilities.
"""

import numpy as np
from keras.layers import Dense, Input
from keras.models import Sequential

weather = np.random.normal(size=(700, 5))
rain = (weather @ np.array([1.0, -0.5, 0.3, 0.0, 0.8]) > 0).astype("float32")

model = Sequential([Input((5,)), Dense(20, activation="relu")])
model.add(Dense(1, activation="relu"))  # mistake
# repaired: model.add(Dense(1, activation="sigmoid"))
model.compile(optimizer="rmsprop", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(weather, rain, epochs=5, batch_size=28, validation_split=0.2, verbose=0)
