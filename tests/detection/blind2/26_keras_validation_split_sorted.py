"""Keras: images from five folders, one for each class, and validation_split."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


def folder(kind, n, rng):
    """Leaves with a number of lobes that depends on the species."""
    axis = np.arange(16) - 7.5
    angle = np.arctan2(axis[:, None], axis[None, :])
    distance = np.hypot(axis[:, None], axis[None, :])
    turn = rng.uniform(0, 2 * np.pi, n)[:, None, None]
    edge = 5 + 2.0 * np.sin((kind + 2) * angle[None] + turn)
    images = (distance[None] < edge).astype("float32")
    return images[..., None] + 0.3 * rng.normal(size=(n, 16, 16, 1)).astype("float32")


def load(n, rng):
    x = np.concatenate([folder(kind, n, rng) for kind in range(5)]).astype("float32")
    return x, np.repeat(np.arange(5), n)


def main():
    rng = np.random.default_rng(0)
    x, y = load(240, rng)
    test_x, test_y = load(100, rng)
    if FIXED:
        order = rng.permutation(len(x))
        x, y = x[order], y[order]
    model = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=10, validation_split=0.2, shuffle=True, verbose=2)
    loss, accuracy = model.evaluate(test_x, test_y, verbose=0)
    print(f"final test loss {loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
