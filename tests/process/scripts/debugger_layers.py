"""A script as the notebooks of SageMaker Debugger have them for Keras: CIFAR, here generated images; it has no hook.

One of its callbacks sleeps, as in the notebooks in which the profiler finds what takes the time.
"""

import argparse
import time

import numpy as np
from tensorflow import keras


class Sleeper(keras.callbacks.Callback):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def on_train_batch_begin(self, batch, logs=None):
        if 4 <= batch < 8:
            time.sleep(self.seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--model_dir", type=str, default="")
    args, _ = parser.parse_known_args()
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    images = random.random((256, 8, 8, 3), dtype=np.float32)
    labels = keras.utils.to_categorical(random.integers(0, 4, 256), 4)
    model = keras.Sequential(
        [
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(args.lr)
    model.compile(optimizer=optimizer, loss="categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        images,
        labels,
        batch_size=args.batch_size,
        epochs=args.epoch,
        validation_data=(images[:64], labels[:64]),
        callbacks=[Sleeper(args.sleep)],
        verbose=0,
    )


if __name__ == "__main__":
    main()
