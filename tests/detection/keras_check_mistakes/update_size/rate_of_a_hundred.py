# Asked as: Keras SGD learning rate, loss jumps to huge values at once (StackOverflow)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(10)
table = np.random.randn(640, 10).astype("float32")
price = table @ np.random.randn(10).astype("float32")
model = keras.Sequential([layers.Input((10,)), layers.Dense(32, "tanh"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(3.0), "mse")  # mistake
# repaired: model.compile(keras.optimizers.SGD(0.03), "mse")
model.fit(table, price, batch_size=32, verbose=2)
