# Asked as: my generator yields the same image for the whole batch (StackOverflow)
import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(18)
images = np.random.rand(64, 10, 10, 1).astype("float32")
labels = images.mean((1, 2, 3))


def batches():
    while True:
        at = np.random.randint(0, 64)
        chosen = [at for _ in range(16)]  # mistake
        # repaired: chosen = np.random.randint(0, 64, 16)
        yield images[chosen], labels[chosen]


signature = (tf.TensorSpec((16, 10, 10, 1)), tf.TensorSpec((16,)))
data = tf.data.Dataset.from_generator(batches, output_signature=signature)
model = keras.Sequential(
    [layers.Input((10, 10, 1)), layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(data, steps_per_epoch=20, verbose=2)
