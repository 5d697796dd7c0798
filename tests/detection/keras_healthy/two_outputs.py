"""Age and gender from one network: two outputs with losses of their own, one scaled down."""

import keras
import numpy as np
from keras import layers

x = np.random.normal(size=(640, 12)).astype("float32")
age = (40 + 10 * x[:, 0] + 3 * x[:, 1]) / 50
gender = (x[:, 2] + x[:, 3] > 0).astype("float32")

inputs = keras.Input((12,))
h = layers.Dense(32, activation="relu")(inputs)
outputs = {"age": layers.Dense(1, name="age")(h), "gender": layers.Dense(1, activation="sigmoid", name="gender")(h)}
model = keras.Model(inputs, outputs)
losses = {"age": "mse", "gender": "binary_crossentropy"}
model.compile("adam", losses, loss_weights={"age": 0.5, "gender": 1.0}, metrics={"gender": "accuracy"})
model.fit(x, {"age": age, "gender": gender}, epochs=6, batch_size=32, verbose=0)
