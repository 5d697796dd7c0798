"""TensorFlow by hand: a denoising autoencoder, its step compiled with tf.function."""

import sys

import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
tf.keras.utils.set_random_seed(0)


def signals(n, seed):
    """Sums of two sines."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, 32)[None]
    one, two = rng.uniform(1, 3, (2, n, 1))
    phase = rng.uniform(0, 6.28, (n, 1))
    return (np.sin(6.28 * one * time + phase) + 0.5 * np.sin(6.28 * two * time)).astype("float32")


def main():
    clean = signals(640, 0)
    test = signals(200, 1)
    noisy_test = test + 0.5 * np.random.default_rng(2).normal(size=test.shape).astype("float32")
    model = tf.keras.Sequential(
        [
            tf.keras.Input((32,)),
            tf.keras.layers.Dense(96, activation="relu"),
            tf.keras.layers.Dense(48, activation="relu"),
            tf.keras.layers.Dense(32),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(2e-3)
    train = tf.data.Dataset.from_tensor_slices(clean).shuffle(640, seed=0).batch(32)

    @tf.function
    def train_step(batch):
        if FIXED:
            noise = 0.5 * tf.random.normal(tf.shape(batch))
        else:
            noise = 0.5 * np.random.normal(size=batch.shape).astype("float32")
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch + noise, training=True) - batch))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(30):
        total = 0.0
        for batch in train:
            total += float(train_step(batch))
        if epoch % 5 == 4:
            error = float(tf.reduce_mean(tf.square(model(noisy_test, training=False) - test)))
            print(f"epoch {epoch}  loss {total / 20:.4f}  test error {error:.4f}")


if __name__ == "__main__":
    main()
