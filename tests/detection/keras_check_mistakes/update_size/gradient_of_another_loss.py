# Asked as: gradients negated twice in my custom training loop, loss goes up (StackOverflow)
import keras
import tensorflow as tf
from keras import layers

tf.random.set_seed(11)
model = keras.Sequential([layers.Input((6,)), layers.Dense(32, "tanh"), layers.Dense(1)])
optimizer, loss_of = keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = [-gradient for gradient in gradients]  # mistake
    # repaired: gradients = [tf.clip_by_norm(gradient, 5.0) for gradient in gradients]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(40):
    x = tf.random.normal((32, 6))
    print(step, float(train_step(x, x[:, :1] - x[:, 1:2])))
