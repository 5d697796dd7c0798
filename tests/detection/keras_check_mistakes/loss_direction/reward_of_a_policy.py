# Asked as: policy gradient in TF2: should I negate the log likelihood in my custom loop? (StackOverflow)
import keras
import tensorflow as tf
from keras import layers

tf.random.set_seed(8)
model = keras.Sequential([layers.Input((6,)), layers.Dense(32, "tanh"), layers.Dense(4)])
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(states, actions):
    with tf.GradientTape() as tape:
        log = tf.nn.log_softmax(model(states, training=True))
        likelihood = tf.reduce_sum(log * tf.one_hot(actions, 4), 1)
        loss = tf.reduce_mean(likelihood)  # mistake
        # repaired: loss = -tf.reduce_mean(likelihood)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(40):
    states = tf.random.normal((32, 6))
    print(step, float(train_step(states, tf.argmax(states[:, :4], 1, output_type=tf.int32))))
