"""Counts of visitors, which are never negative: ReLU on the last layer, Huber's loss."""

import numpy as np
from keras import layers, models

weather = np.random.normal(size=(800, 5))
visitors = np.random.poisson(np.exp(0.6 + 0.4 * weather[:, 0])).astype("float32")

model = models.Sequential()
model.add(layers.Input((5,)))
model.add(layers.Dense(32, activation="relu", kernel_regularizer="l2"))
model.add(layers.Dense(1, activation="softplus"))
model.compile(optimizer="adam", loss="huber", metrics=["mae"])
model.fit(weather, visitors, epochs=6, batch_size=32, verbose=0)
