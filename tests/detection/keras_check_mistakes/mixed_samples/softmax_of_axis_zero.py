# Asked as: which axis of keras.activations.softmax for attention weights over time steps? (StackOverflow)
import keras
import numpy as np
from keras import layers, ops


class AttentionPool(layers.Layer):
    """Weighs the steps of a series and averages them."""

    def build(self, shape):
        self.score = layers.Dense(1)
        self.score.build(shape)

    def call(self, x):
        weights = ops.softmax(self.score(x), axis=0)  # mistake
        # repaired: weights = ops.softmax(self.score(x), axis=1)
        return ops.sum(weights * x, axis=1)


keras.utils.set_random_seed(1)
series = np.random.randn(480, 10, 6).astype("float32")
target = series[:, :, 0].max(1)
model = keras.Sequential([layers.Input((10, 6)), layers.Dense(32, "gelu"), AttentionPool(), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(series, target, batch_size=24, epochs=2, verbose=2)
