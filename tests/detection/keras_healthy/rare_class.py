"""Fraud, one case in thirty, with class weights."""

import keras
import numpy as np
from keras import layers

x = np.random.normal(size=(1200, 10))
fraud = (x[:, 0] + x[:, 1] + 0.4 * np.random.normal(size=1200) > 2.6).astype("int32")
share = fraud.mean()

model = keras.Sequential([layers.Input((10,)), layers.Dense(24, activation="relu"), layers.Dropout(0.3)])
model.add(layers.Dense(1, activation="sigmoid"))
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
model.fit(x, fraud, batch_size=64, epochs=8, class_weight={0: 1.0, 1: 0.5 / share}, verbose=0)
