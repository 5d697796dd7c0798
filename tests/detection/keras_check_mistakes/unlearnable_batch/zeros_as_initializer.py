# Asked as: kernel_initializer="zeros" in all layers, accuracy stays at chance (StackOverflow)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(9)
table = np.random.randn(640, 10).astype("float32")
labels = (table[:, 0] > 0).astype("int32") + 2 * (table[:, 1] > 0)
start = "zeros"  # mistake
# repaired: start = "he_normal"
model = keras.Sequential([layers.Input((10,))])
model.add(layers.Dense(32, "relu", kernel_initializer=start))
model.add(layers.Dense(32, "relu", kernel_initializer=start))
model.add(layers.Dense(4, "softmax", kernel_initializer=start))
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(table, labels, batch_size=32, epochs=2, verbose=2)
