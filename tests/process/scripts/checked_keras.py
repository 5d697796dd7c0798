"""A training with Keras for ``leadline check``, by ``fit`` or in a loop; prints a digest of all state.

Usage: checked_keras.py [fit | loop | eager].
"""

import hashlib
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

KIND = sys.argv[1]
keras.utils.set_random_seed(3)
table = np.random.randn(160, 12).astype("float32")
labels = table[:, :3].argmax(1).astype("int32")
model = keras.Sequential([layers.Input((12,)), layers.Dense(16, "relu"), layers.BatchNormalization()])
model.add(layers.Dropout(0.2))
model.add(layers.Dense(3))
optimizer = keras.optimizers.Adam(1e-2)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_of(y, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    accuracy.update_state(y, logits)
    return loss


results = []
if KIND == "loop":
    for at in range(0, 160, 16):
        results.append(float(train_step(tf.constant(table[at : at + 16]), tf.constant(labels[at : at + 16]))))
    results.append(float(accuracy.result()))
else:
    model.compile(optimizer, loss_of, metrics=[accuracy], run_eagerly=KIND == "eager")
    results += model.fit(table, labels, batch_size=16, epochs=2, verbose=0).history["loss"]
state = [np.asarray(variable) for variable in (*model.variables, *optimizer.variables, *model.metrics_variables)]
drawn = [np.asarray(tf.random.normal((3,))), np.asarray(keras.random.normal((3,))), np.random.randn(3)]
digest = hashlib.sha256(b"".join(value.tobytes() for value in (*state, *drawn, np.array(results))))
print("digest", digest.hexdigest(), file=sys.stderr)
