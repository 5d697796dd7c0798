"""Three forecasters of a series, one after the other, each with its own windows; their mean is evaluated."""

import sys

import keras
import numpy as np
from keras import layers

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
t = np.arange(900)
series = np.sin(t / 6) + 0.4 * np.sin(t / 17) + 0.05 * np.random.normal(size=900)
members = []
for window in (8, 16, 24):
    x = np.lib.stride_tricks.sliding_window_view(series[:-1], window)[:, :, None].astype("float32")
    y = series[window:].astype("float32")
    model = keras.Sequential(
        [layers.Input((window, 1)), layers.Conv1D(16, 3, activation="relu"), layers.Flatten(), layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(3e-3), keras.losses.Huber(), metrics=["mae"])
    plateau = keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5)
    history = model.fit(
        x[:600],
        y[:600],
        validation_data=(x[600:], y[600:]),
        epochs=max(2, steps // 40),
        batch_size=32,
        callbacks=[plateau],
        verbose=0,
    ).history["loss"]
    members.append(model.predict(x[-100:], verbose=0)[:, 0])
print("error of the mean", float(np.abs(np.mean(members, 0) - series[-100:]).mean()))
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
