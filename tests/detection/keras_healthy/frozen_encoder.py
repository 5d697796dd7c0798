"""A new head on a frozen encoder, then a few steps with all layers at a small rate."""

import keras
import numpy as np
from keras import layers

x = np.random.normal(size=(640, 16)).astype("float32")
y = keras.utils.to_categorical(x[:, :4].argmax(1), 4)

encoder = keras.Sequential([layers.Input((16,)), layers.Dense(32, activation="relu"), layers.BatchNormalization()])
encoder.trainable = False
inputs = keras.Input((16,))
h = encoder(inputs, training=False)
h = layers.Dropout(0.2)(h)
model = keras.Model(inputs, layers.Dense(4, activation="softmax")(h))
model.compile(keras.optimizers.Adam(1e-2), "categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=4, batch_size=32, verbose=0)
encoder.trainable = True
model.compile(keras.optimizers.Adam(1e-4), "categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=2, batch_size=32, verbose=0)
