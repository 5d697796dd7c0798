"""TensorFlow by hand: a regularized classifier of few samples with many features."""

import sys

import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
tf.keras.utils.set_random_seed(0)


def samples(n, seed):
    """Two of 100 features tell the class, some labels are wrong."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 100)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("int32")
    return x, np.where(rng.random(n) < 0.1, 1 - y, y)


def build():
    penalty = tf.keras.regularizers.L2(0.01)
    return tf.keras.Sequential(
        [
            tf.keras.Input((100,)),
            tf.keras.layers.Dense(64, activation="relu", kernel_regularizer=penalty),
            tf.keras.layers.Dense(32, activation="relu", kernel_regularizer=penalty),
            tf.keras.layers.Dense(2, kernel_regularizer=penalty),
        ]
    )


def main():
    x, y = samples(400, 0)
    test_x, test_y = samples(1000, 1)
    train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(400, seed=0).batch(25)
    model = build()
    criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(2e-3)

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = criterion(labels, model(images, training=True))
            if FIXED:
                loss += tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(20):
        total = 0.0
        for images, labels in train:
            total += float(train_step(images, labels))
        logits = model(test_x, training=False)
        test_loss = float(criterion(test_y, logits))
        accuracy = float(np.mean(np.argmax(logits, 1) == test_y))
        print(f"epoch {epoch}  loss {total / 16:.3f}  test loss {test_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
