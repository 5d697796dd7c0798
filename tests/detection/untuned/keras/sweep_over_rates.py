"""A search over rates and widths: nine short fits, and a longer one with the best."""

import sys

import keras
import numpy as np

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
x = np.random.uniform(-2, 2, size=(600, 5)).astype("float32")
y = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * np.random.normal(size=600)


def build(width, rate):
    model = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(width, activation="gelu"),
            keras.layers.Dense(width, activation="gelu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.AdamW(rate), "mse", metrics=["mae"])
    return model


scores = {}
for width in (16, 48):
    for rate in (1e-3, 3e-3, 1e-2):
        fitted = build(width, rate).fit(x[:480], y[:480], validation_split=0.2, epochs=3, batch_size=32, verbose=0)
        scores[width, rate] = fitted.history["val_loss"][-1]
        print(width, rate, scores[width, rate])
best = min(scores, key=scores.get)
model = build(*best)
history = model.fit(
    x[:480], y[:480], validation_data=(x[480:], y[480:]), epochs=max(3, steps // 30), batch_size=32, verbose=0
).history["val_loss"]
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
