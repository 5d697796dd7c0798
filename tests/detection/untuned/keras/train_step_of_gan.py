"""A GAN by hand with train_on_batch: the discriminator alone, then the generator through it while it is frozen."""

import sys

import keras
import numpy as np
from keras import layers

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
generator = keras.Sequential([layers.Input((4,)), layers.Dense(32, activation="relu"), layers.Dense(2)])
discriminator = keras.Sequential(
    [layers.Input((2,)), layers.Dense(32), layers.LeakyReLU(0.2), layers.Dense(1, activation="sigmoid")]
)
discriminator.compile(keras.optimizers.Adam(2e-3, beta_1=0.5), "binary_crossentropy")
frozen = keras.models.clone_model(discriminator)
frozen.trainable = False
noise = keras.Input((4,))
combined = keras.Model(noise, frozen(generator(noise)))
combined.compile(keras.optimizers.Adam(2e-3, beta_1=0.5), "binary_crossentropy")
target = np.array([2.0, -1.0])


def distance():
    points = generator.predict(np.random.normal(size=(256, 4)), verbose=0)
    return float(np.linalg.norm(points.mean(0) - target))


def real(n=32):
    return (target + 0.4 * np.random.normal(size=(n, 2))).astype("float32")


before = distance()
for step in range(max(40, steps // 2)):
    fake = generator.predict(np.random.normal(size=(32, 4)), verbose=0)
    x, y = np.concatenate([real(), fake]), np.concatenate([np.ones((32, 1)), np.zeros((32, 1))])
    loss_d = discriminator.train_on_batch(x, y)
    frozen.set_weights(discriminator.get_weights())
    loss_g = combined.train_on_batch(np.random.normal(size=(32, 4)), np.ones((32, 1)))
    if step % 25 == 0:
        print(step, loss_d, loss_g)
print(f"distance fell from {before:.4g} to {distance():.4g}")
