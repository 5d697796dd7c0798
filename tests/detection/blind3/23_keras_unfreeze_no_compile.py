"""Keras: train the head of a network first, then fine-tune all of it."""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


def blots(n, classes, seed):
    """Pictures of blots whose place tells the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    angle = 2 * np.pi * y / classes
    row, column = 7.5 + 4.5 * np.sin(angle), 7.5 + 4.5 * np.cos(angle)
    axis = np.arange(16)
    square = (axis[None, :, None] - row[:, None, None]) ** 2 + (axis[None, None, :] - column[:, None, None]) ** 2
    images = np.exp(-square / 6) + rng.normal(0, 0.5, (n, 16, 16))
    return images[..., None].astype("float32"), y


def main():
    base = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
        ],
        name="base",
    )
    pretext = keras.Sequential([base, keras.layers.Dense(2)])
    pretext.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    pretext.fit(*blots(1000, 2, 0), epochs=3, batch_size=32, verbose=0)

    base.trainable = False
    model = keras.Sequential([base, keras.layers.Dense(32, activation="relu"), keras.layers.Dense(6)])

    def compiled(rate):
        model.compile(
            keras.optimizers.Adam(rate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )

    compiled(2e-3)
    x, y = blots(1500, 6, 1)
    validation = blots(500, 6, 2)
    model.fit(x, y, epochs=4, batch_size=32, validation_data=validation, verbose=2)
    print("fine-tuning the whole network")
    base.trainable = True
    if FIXED:
        compiled(2e-3)
    model.fit(x, y, epochs=8, batch_size=32, validation_data=validation, verbose=2)


if __name__ == "__main__":
    main()
