"""Keras: the report of a classifier is made from predict and the labels of the same dataset."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


def beats(n, rng):
    """Heart beats of four kinds, 40 samples each."""
    y = rng.integers(0, 4, n)
    time = np.linspace(0, 1, 40)
    centre = 0.4 + 0.05 * rng.normal(size=(n, 1))
    width = np.array([0.03, 0.06, 0.03, 0.06])[y][:, None]
    second = np.array([0.0, 0.0, 0.6, -0.6])[y][:, None]
    signal = np.exp(-(((time - centre) / width) ** 2)) + second * np.exp(-(((time - centre - 0.3) / 0.08) ** 2))
    return (signal + 0.15 * rng.normal(size=(n, 40))).astype("float32")[..., None], y


def main():
    rng = np.random.default_rng(0)
    train = tf.data.Dataset.from_tensor_slices(beats(1500, rng)).shuffle(1500).batch(32)
    test = tf.data.Dataset.from_tensor_slices(beats(600, rng))
    test = test.batch(32) if FIXED else test.shuffle(600).batch(32)

    model = keras.Sequential(
        [
            keras.Input((40, 1)),
            keras.layers.Conv1D(16, 7, activation="relu"),
            keras.layers.MaxPooling1D(2),
            keras.layers.Conv1D(16, 5, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, epochs=5, verbose=2)

    predicted = model.predict(test, verbose=0).argmax(1)
    labels = np.concatenate([y for _, y in test])
    matrix = np.zeros((4, 4), int)
    np.add.at(matrix, (labels, predicted), 1)
    print(matrix)
    print(f"final test acc {np.mean(predicted == labels):.3f}")


if __name__ == "__main__":
    main()
