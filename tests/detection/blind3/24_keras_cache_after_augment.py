"""Keras with a tf.data pipeline that augments a small set of pictures."""

import sys

import keras
import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


def pictures(n, seed):
    """Six glyphs near the middle."""
    glyphs = (np.random.default_rng(9).random((6, 7, 7)) < 0.5).astype("float32")
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 6, n)
    images = 0.5 * rng.normal(size=(n, 16, 16)).astype("float32")
    for i in range(n):
        r, c = rng.integers(2, 8, 2)
        images[i, r : r + 7, c : c + 7] += 2 * glyphs[y[i]]
    return images[..., None], y


def augment(image, label):
    image = tf.image.resize_with_crop_or_pad(image, 20, 20)
    image = tf.image.random_crop(image, (16, 16, 1))
    return image + 0.2 * tf.random.normal(tf.shape(image)), label


def main():
    data = tf.data.Dataset.from_tensor_slices(pictures(240, 0))
    if FIXED:
        data = data.cache().map(augment, num_parallel_calls=1)
    else:
        data = data.map(augment, num_parallel_calls=1).cache()
    train = data.shuffle(240).repeat().batch(24).prefetch(2)
    test = tf.data.Dataset.from_tensor_slices(pictures(600, 1)).batch(100)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            keras.layers.Conv2D(16, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(24, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(6),
        ]
    )
    model.compile(
        keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    model.fit(train, epochs=30, steps_per_epoch=10, validation_data=test, verbose=2)


if __name__ == "__main__":
    main()
