"""A small table to convergence, with the learning rate reduced on a plateau and an early end."""

import keras
import numpy as np
from keras import layers

x = np.random.uniform(-1, 1, size=(256, 4))
y = (x[:, 0] + x[:, 1] > 0).astype("int32")

model = keras.Sequential(
    [layers.Input((4,)), layers.Dense(16, activation="tanh"), layers.Dense(2, activation="softmax")]
)
model.compile(keras.optimizers.SGD(0.2, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=2, factor=0.3)
model.fit(x, y, epochs=25, batch_size=16, callbacks=[plateau], verbose=0)
