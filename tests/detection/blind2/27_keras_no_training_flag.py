"""TensorFlow: a loop with GradientTape; the model has dropout and batch normalization."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)


class Classifier(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(96, activation="relu")
        self.norm = keras.layers.BatchNormalization()
        self.drop1 = keras.layers.Dropout(0.5)
        self.second = keras.layers.Dense(96, activation="relu")
        self.drop2 = keras.layers.Dropout(0.5)
        self.out = keras.layers.Dense(3)

    def call(self, x, training=False):
        x = self.drop1(self.norm(self.first(x), training=training), training=training)
        return self.out(self.drop2(self.second(x), training=training))


def wines(n, rng):
    x = rng.normal(size=(n, 20)) * rng.uniform(0.5, 3, 20)
    score = np.stack([x[:, 0] - x[:, 1], 0.5 * x[:, 2] * x[:, 3], x[:, 4] + 0.3 * x[:, 5] ** 2 - 1], 1)
    y = (score + 1.5 * rng.normal(size=(n, 3))).argmax(1)
    return x.astype("float32"), y.astype("int32")


def main():
    rng = np.random.default_rng(0)
    x, y = wines(500, rng)
    val_x, val_y = wines(1000, rng)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500, seed=0).batch(50)
    model = Classifier()
    optimizer = keras.optimizers.Adam(2e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(batch_x, batch_y):
        with tf.GradientTape() as tape:
            logits = model(batch_x, training=True) if FIXED else model(batch_x)
            loss = loss_fn(batch_y, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(25):
        losses = [float(train_step(bx, by)) for bx, by in dataset]
        logits = model(val_x, training=False)
        val_loss = float(loss_fn(val_y, logits))
        accuracy = float(np.mean(np.argmax(logits, 1) == val_y))
        if epoch % 5 == 4:
            print(f"epoch {epoch}  train {np.mean(losses):.3f}  val {val_loss:.3f}  acc {accuracy:.3f}")
    print(f"final val loss {val_loss:.3f}  acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
