"""Tell with Keras which customers will leave, from their monthly usage."""

import sys

import keras
import numpy as np
from keras import layers

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)
MONTHS = 24


def make_customers(count):
    rng = np.random.default_rng(0)
    leaving = rng.integers(0, 2, count)
    level = rng.uniform(20, 60, (count, 1))
    months = np.arange(MONTHS)
    season = 6 * np.sin(2 * np.pi * (months + rng.integers(0, 12, (count, 1))) / 12)
    usage = level + season + rng.normal(0, 5, (count, MONTHS))
    complaints = rng.poisson(0.4, (count, MONTHS)).astype(float)
    start = rng.integers(8, 20, (count, 1))
    decline = np.clip(months - start, 0, None) * leaving[:, None]
    usage = usage - 1.8 * decline
    complaints = complaints + rng.poisson(0.1 * decline)
    return np.stack([usage, complaints], -1).astype("float32"), leaving.astype("float32")


def build_model(mean, std):
    inputs = keras.Input((MONTHS, 2))
    x = (inputs - mean) / std
    x = layers.Conv1D(24, 5, activation="relu", padding="same")(x)
    x = layers.MaxPooling1D(2)(x)
    x = layers.Conv1D(32, 3, activation="relu", padding="same")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(1, activation="sigmoid" if FIXED else "softmax")(x)
    return keras.Model(inputs, outputs)


def main():
    x, y = make_customers(6000)
    train_x, train_y = x[:4000], y[:4000]
    val_x, val_y = x[4000:5000], y[4000:5000]
    test_x, test_y = x[5000:], y[5000:]

    model = build_model(train_x.mean((0, 1)), train_x.std((0, 1)))
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    model.fit(
        train_x,
        train_y,
        batch_size=64,
        epochs=15,
        validation_data=(val_x, val_y),
        verbose=2,
    )

    predicted = model.predict(test_x, verbose=0).ravel() > 0.5
    leaving = test_y > 0.5
    table = [[int(np.sum(predicted[leaving == a] == b)) for b in (False, True)] for a in (False, True)]
    print("confusion matrix", table)
    print(f"test accuracy {np.mean(predicted == leaving):.3f}")


if __name__ == "__main__":
    main()
