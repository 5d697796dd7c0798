# Asked as: tf.reshape versus tf.transpose to swap batch and time before my RNN (StackOverflow)
import keras
import tensorflow as tf
from keras import layers


class Tagger(keras.Model):
    """Takes a series with the steps first, as its recordings come."""

    def __init__(self):
        super().__init__()
        self.rnn = layers.GRU(16)
        self.head = layers.Dense(1)

    def call(self, x):
        steps_first = tf.transpose(x, (1, 0, 2))
        x = tf.reshape(steps_first, (-1, 12, 4))  # mistake
        # repaired: x = tf.transpose(steps_first, (1, 0, 2))
        return self.head(self.rnn(x))


tf.random.set_seed(2)
model, optimizer, loss_of = Tagger(), keras.optimizers.Adam(1e-3), keras.losses.MeanSquaredError()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(40):
    x = tf.random.normal((16, 12, 4))
    print(step, float(train_step(x, tf.reduce_mean(x[:, :, :1], 1))))
