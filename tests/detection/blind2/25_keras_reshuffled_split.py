"""Keras: a tf.data pipeline that is shuffled, then split with take and skip."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


def patients(n, rng):
    """Few patients, many measurements, labels with errors."""
    x = rng.normal(size=(n, 30)).astype("float32")
    y = (x[:, 0] + 0.8 * x[:, 1] * x[:, 2] + 0.9 * rng.normal(size=n) > 0).astype("int32")
    return x, y


def main():
    rng = np.random.default_rng(0)
    x, y = patients(600, rng)
    new_x, new_y = patients(2000, rng)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shuffle(600, seed=1, reshuffle_each_iteration=not FIXED)
    train = dataset.take(450).batch(30)
    val = dataset.skip(450).batch(30)

    model = keras.Sequential(
        [keras.Input((30,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(64, "relu"), keras.layers.Dense(2)]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(train, validation_data=val, epochs=20, verbose=0).history
    for epoch in range(0, 20, 4):
        print(f"epoch {epoch}  " + "  ".join(f"{k} {v[epoch]:.3f}" for k, v in history.items()))
    loss, accuracy = model.evaluate(new_x, new_y, verbose=0)
    print(f"final val acc {history['val_accuracy'][-1]:.3f}  new patients: loss {loss:.3f} acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
