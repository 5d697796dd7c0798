"""Transfer learning as in Keras' guide: the base frozen, then thawed with a rate a hundred times smaller."""

import sys

import keras
import numpy as np
from keras import layers

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
patterns = np.random.normal(size=(6, 12, 12, 1)).astype("float32")


def data(kinds, n):
    y = np.random.randint(0, len(kinds), n)
    return kinds[y] + np.random.normal(size=(n, 12, 12, 1)).astype("float32"), y


base = keras.Sequential(
    [
        layers.Input((12, 12, 1)),
        layers.Conv2D(12, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.Conv2D(24, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
    ],
    name="base",
)
epochs = max(2, steps // 50)
pretrained = keras.Sequential([base, layers.Dense(4)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
pretrained.compile(keras.optimizers.Adam(5e-3), loss)
pretrained.fit(*data(patterns[:4], 640), epochs=epochs, batch_size=32, verbose=0)

base.trainable = False
inputs = keras.Input((12, 12, 1))
outputs = layers.Dense(2)(base(inputs, training=False))
model = keras.Model(inputs, outputs)
train, valid = data(patterns[4:], 640), data(patterns[4:], 160)
model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
first = model.fit(*train, validation_data=valid, epochs=epochs, batch_size=32, verbose=0).history["loss"]
base.trainable = True
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])
last = model.fit(*train, validation_data=valid, epochs=epochs, batch_size=32, verbose=0).history["loss"]
print(f"loss fell from {first[0]:.4g} to {last[-1]:.4g}")
