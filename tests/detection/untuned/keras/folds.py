"""Four folds: a fresh model, compile and fit for each, with early stopping that restores the best weights."""

import sys

import keras
import numpy as np

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
x = np.random.normal(size=(480, 10)).astype("float32")
y = (x @ np.random.normal(size=(10, 3)) + 0.5 * np.random.normal(size=(480, 3))).argmax(1)
folds = np.array_split(np.random.permutation(480), 4)
for k, valid in enumerate(folds):
    train = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
    model = keras.Sequential(
        [
            keras.layers.Input((10,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    history = model.fit(
        x[train],
        y[train],
        validation_data=(x[valid], y[valid]),
        epochs=max(2, steps // 40),
        batch_size=24,
        callbacks=[stop],
        verbose=0,
    ).history
    print(k, model.evaluate(x[valid], y[valid], verbose=0))
print(f"loss fell from {history['loss'][0]:.4g} to {history['loss'][-1]:.4g}")
