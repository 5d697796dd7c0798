"""A small language model with causal attention, in a custom loop with gradient clipping."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(1)
tokens = np.random.randint(0, 40, (640, 17))
given = keras.Input((16,), dtype="int32")
x = layers.Embedding(40, 32)(given)
normed = layers.LayerNormalization()(x)
x = x + layers.MultiHeadAttention(2, 16, dropout=0.1)(normed, normed, use_causal_mask=True)
model = keras.Model(given, layers.Dense(40)(layers.LayerNormalization()(x)))
optimizer = keras.optimizers.AdamW(1e-3, clipnorm=1.0)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = loss_of(batch[:, 1:], model(batch[:, :-1], training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(30):
    loss = train_step(tf.constant(tokens[20 * step : 20 * step + 20]))
print(float(loss))
