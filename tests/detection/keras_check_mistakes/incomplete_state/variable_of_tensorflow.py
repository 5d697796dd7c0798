# Asked as: Keras 3: my layer's tf.Variable is not in model.weights, and is lost after load_weights (GitHub, keras)
import keras
import numpy as np
import tensorflow as tf
from keras import layers


class RunningCentre(layers.Layer):
    """Subtracts a running mean of what it has seen."""

    def __init__(self, width):
        super().__init__()
        self.centre = tf.Variable(tf.zeros(width), trainable=False)  # mistake
        # repaired: self.centre = self.add_weight(shape=(width,), initializer="zeros", trainable=False)

    def call(self, x, training=False):
        if training:
            self.centre.assign(0.9 * self.centre + 0.1 * tf.reduce_mean(x, 0))
        return x - self.centre


keras.utils.set_random_seed(15)
table = 2 + np.random.randn(640, 10).astype("float32")
model = keras.Sequential([layers.Input((10,)), RunningCentre(10), layers.Dense(16, "relu"), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(table, table[:, 0] * table[:, 1], batch_size=32, verbose=2)
