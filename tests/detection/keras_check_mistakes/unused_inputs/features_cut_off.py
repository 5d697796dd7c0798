# Asked as: off by one in my column slice: the last features have no effect on the Keras model (StackOverflow)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(6)
table = np.random.randn(640, 12).astype("float32")
given = keras.Input((12,))
numbers = given[:, :6]
rest = given[:, 6:9]  # mistake
# repaired: rest = given[:, 6:]
x = layers.Concatenate()([layers.Dense(16, "relu")(numbers), layers.Dense(16, "tanh")(rest)])
model = keras.Model(given, layers.Dense(1)(x))
model.compile(keras.optimizers.SGD(0.01), "mse")
model.fit(table, table[:, 10] - table[:, 1], batch_size=32, verbose=2)
