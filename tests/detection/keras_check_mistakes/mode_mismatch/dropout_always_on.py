# Asked as: predict gives another result at every call, because I wrote dropout(x, training=True) (StackOverflow)
import keras
import numpy as np
from keras import layers


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.dropout, self.head = layers.Dense(32, "relu"), layers.Dropout(0.3), layers.Dense(1)

    def call(self, x, training=False):
        x = self.hidden(x)
        x = self.dropout(x, training=True)  # mistake
        # repaired: x = self.dropout(x, training=training)
        return self.head(x)


keras.utils.set_random_seed(14)
table = np.random.randn(640, 10).astype("float32")
model = Model()
model.compile("adam", "mse")
model.fit(table, table[:, 0] * table[:, 1], batch_size=32, verbose=2)
