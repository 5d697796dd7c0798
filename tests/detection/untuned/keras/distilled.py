"""A teacher is fitted, then a student whose compute_loss mixes its softened outputs with the labels."""

import sys

import keras
import numpy as np
from keras import layers, ops

steps = int(sys.argv[1])
keras.utils.set_random_seed(int(sys.argv[2]))
centres = np.random.normal(size=(5, 12))
y = np.random.randint(0, 5, 960)
x = (centres[y] + 0.8 * np.random.normal(size=(960, 12))).astype("float32")


def network(width):
    return keras.Sequential(
        [
            layers.Input((12,)),
            layers.Dense(width, activation="relu"),
            layers.Dense(width, activation="relu"),
            layers.Dense(5),
        ]
    )


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher

    def call(self, x, training=False):
        return self.student(x, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        soft = ops.softmax(self.teacher(x, training=False) / 3.0)
        distilled = keras.losses.kl_divergence(soft, ops.softmax(y_pred / 3.0))
        hard = keras.losses.sparse_categorical_crossentropy(y, y_pred, from_logits=True)
        return ops.mean(0.3 * hard + 0.7 * 9.0 * distilled)


teacher = network(64)
teacher.compile(
    keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
teacher.fit(x, y, epochs=max(2, steps // 60), batch_size=32, verbose=0)
teacher.trainable = False
student = Distiller(network(16), teacher)
student.compile(keras.optimizers.Adam(3e-3))
history = student.fit(x, y, epochs=max(3, steps // 30), batch_size=32, verbose=0).history["loss"]
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
