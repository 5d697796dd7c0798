"""The consumption of cars in raw units, behind a layer that normalizes them."""

import keras
import numpy as np
from keras import layers

weight = np.random.normal(3000, 800, 800)
power = np.random.normal(105, 38, 800)
year = np.random.randint(70, 83, 800)
cars = np.stack([weight, power, year], axis=1).astype("float32")
consumption = (weight / 400 + power / 30 + 0.3 * np.random.normal(size=800)).astype("float32")

normalizer = layers.Normalization(axis=-1)
normalizer.adapt(cars)
model = keras.Sequential([normalizer, layers.Dense(64, activation="relu"), layers.Dense(1)])
model.compile(loss="mean_absolute_error", optimizer=keras.optimizers.Adam(0.01))
model.fit(cars, consumption, validation_split=0.2, epochs=6, verbose=0)
