"""Recognize gestures from an accelerometer; the recordings of each gesture are in a file of their own."""

import sys

import keras
import numpy as np
from keras import layers

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)
GESTURES = ["circle", "swipe", "shake", "tap", "lift"]
SAMPLES = 40


def load_recordings(gesture, count, seed):
    """Stands for np.load(f"{gesture}.npy"): recordings of three axes."""
    rng = np.random.default_rng([seed, GESTURES.index(gesture)])
    t = np.linspace(0, 1, SAMPLES)
    tempo = rng.uniform(0.8, 1.3, (count, 1))
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    if gesture == "circle":
        axes = [np.sin(6 * tempo * t + phase), np.cos(6 * tempo * t + phase), 0 * tempo * t]
    elif gesture == "swipe":
        axes = [np.exp(-((t - 0.5) ** 2) * 20 * tempo), 0.3 * tempo * t, 0 * tempo * t]
    elif gesture == "shake":
        axes = [np.sin(25 * tempo * t + phase), 0.2 * np.sin(6 * tempo * t + phase), 0 * tempo * t]
    elif gesture == "tap":
        axes = [0 * tempo * t, 0 * tempo * t, np.exp(-((t - rng.uniform(0.2, 0.8, (count, 1))) ** 2) * 300)]
    else:
        axes = [0 * tempo * t, 0 * tempo * t, tempo * t]
    return np.stack(axes, -1) + rng.normal(0, 0.35, (count, SAMPLES, 3))


def load_all(count, seed):
    x = np.concatenate([load_recordings(gesture, count, seed) for gesture in GESTURES])
    y = np.concatenate([np.full(count, i) for i in range(len(GESTURES))])
    return x.astype("float32"), y


def build_model():
    return keras.Sequential(
        [
            keras.Input((SAMPLES, 3)),
            layers.Conv1D(16, 5, activation="relu"),
            layers.Conv1D(32, 5, strides=2, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(32, activation="relu"),
            layers.Dense(len(GESTURES), activation="softmax"),
        ]
    )


def main():
    x, y = load_all(800, seed=0)
    if FIXED:
        order = np.random.default_rng(0).permutation(len(x))
        x, y = x[order], y[order]
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=4, restore_best_weights=True)
    history = model.fit(
        x,
        y,
        batch_size=32,
        epochs=20,
        shuffle=True,
        validation_split=0.2,
        callbacks=[stop],
        verbose=2,
    )
    print(f"trained for {len(history.history['loss'])} epochs")

    test_x, test_y = load_all(100, seed=1)
    predicted = model.predict(test_x, verbose=0).argmax(1)
    for i, gesture in enumerate(GESTURES):
        print(f"{gesture}: {np.mean(predicted[test_y == i] == i):.2f}")
    print(f"test accuracy {np.mean(predicted == test_y):.3f}")


if __name__ == "__main__":
    main()
