"""Keras: forecast the next value of a noisy series with an LSTM."""

import sys

import keras
import numpy as np

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)
LENGTH = 20


def series(n):
    """Two seasons and a wandering level, standardized."""
    rng = np.random.default_rng(0)
    time = np.arange(n)
    level = np.zeros(n)
    for i in range(1, n):
        level[i] = 0.95 * level[i - 1] + 0.3 * rng.normal()
    values = np.sin(2 * np.pi * time / 12) + 0.5 * np.sin(2 * np.pi * time / 35) + level
    return ((values - values.mean()) / values.std()).astype("float32")[:, None]


def windows(values, shuffle):
    targets = values[LENGTH:] if FIXED else values
    return keras.utils.timeseries_dataset_from_array(
        values, targets, sequence_length=LENGTH, batch_size=32, shuffle=shuffle, seed=0
    )


def main():
    values = series(1600)
    train, validation = windows(values[:1200], True), windows(values[1200:], False)
    model = keras.Sequential([keras.Input((LENGTH, 1)), keras.layers.LSTM(24), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(5e-3), "mse", metrics=["mae"])
    model.fit(train, epochs=12, validation_data=validation, verbose=2)
    last = values[1200:]
    inputs = np.stack([last[i : i + LENGTH] for i in range(len(last) - LENGTH)])
    forecast = model.predict(inputs, verbose=0)
    print(f"error of the forecast {np.mean((forecast - last[LENGTH:]) ** 2):.3f}")
    print(f"error of repeating the last value {np.mean((inputs[:, -1] - last[LENGTH:]) ** 2):.3f}")


if __name__ == "__main__":
    main()
