# Asked as: changing my second input does not change the output of the functional model (StackOverflow)
import keras
import numpy as np
from keras import layers


class TwoBranches(keras.Model):
    def __init__(self):
        super().__init__()
        self.image, self.table = layers.Dense(32, "relu"), layers.Dense(16, "relu")
        self.merge, self.head = layers.Concatenate(), layers.Dense(1)

    def call(self, inputs):
        image = self.image(inputs["image"])
        table = self.table(inputs["table"])
        x = self.merge([image, image])  # mistake
        # repaired: x = self.merge([image, table])
        return self.head(x)


keras.utils.set_random_seed(5)
image, table = np.random.randn(640, 64).astype("float32"), np.random.randn(640, 5).astype("float32")
model = TwoBranches()
model.compile("adam", "mse")
model.fit({"image": image, "table": table}, image[:, 0] + table[:, 1], batch_size=32, verbose=2)
