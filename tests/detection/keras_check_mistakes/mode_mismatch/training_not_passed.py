# Asked as: do I have to pass training=True to the model in a custom training loop? Dropout does nothing (StackOverflow)
import keras
import tensorflow as tf
from keras import layers

tf.random.set_seed(12)
model = keras.Sequential(
    [layers.Input((6,)), layers.Dense(32, "relu"), layers.BatchNormalization(), layers.Dropout(0.3), layers.Dense(1)]
)
optimizer, loss_of = keras.optimizers.Adam(1e-3), keras.losses.MeanSquaredError()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x))  # mistake
        # repaired: loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(40):
    x = tf.random.normal((32, 6))
    print(step, float(train_step(x, x[:, :1] - x[:, 1:2])))
