"""An autoencoder with a train_step of its own, two losses, and a sampling layer."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed = keras.random.SeedGenerator(7)

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + ops.exp(0.5 * log_variance) * keras.random.normal(ops.shape(mean), seed=self.seed)


class Autoencoder(keras.Model):
    def __init__(self):
        super().__init__()
        given = keras.Input((12, 12, 1))
        x = layers.Dense(32, "relu")(layers.Flatten()(given))
        mean, log_variance = layers.Dense(4)(x), layers.Dense(4)(x)
        self.encoder = keras.Model(given, [mean, log_variance, Sampling()([mean, log_variance])])
        code = keras.Input((4,))
        y = layers.Dense(144, "sigmoid")(layers.Dense(32, "relu")(code))
        self.decoder = keras.Model(code, layers.Reshape((12, 12, 1))(y))
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, images):
        with tf.GradientTape() as tape:
            mean, log_variance, code = self.encoder(images)
            made = self.decoder(code)
            rebuilt = ops.mean(ops.sum(keras.losses.binary_crossentropy(images, made), axis=(1, 2)))
            kl = -0.5 * ops.mean(ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), axis=1))
            loss = rebuilt + kl
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


keras.utils.set_random_seed(2)
model = Autoencoder()
model.compile(keras.optimizers.Adam(1e-3))
images = (np.random.rand(640, 12, 12, 1) < 0.3).astype("float32")
model.fit(images, batch_size=32, epochs=2, verbose=0)
