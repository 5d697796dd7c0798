# Asked as: position embedding layer in Keras, does the order of the words matter at all? (keras.io forum)
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(3)


@keras.saving.register_keras_serializable()
class Positions(layers.Layer):
    def __init__(self, width=16, **options):
        super().__init__(**options)
        self.table = layers.Embedding(64, width)

    def call(self, x):
        places = self.table(ops.arange(ops.shape(x)[0]))[:, None]  # mistake
        # repaired: places = self.table(ops.arange(ops.shape(x)[1]))
        return x + places


model = keras.Sequential(
    [
        keras.Input((9,), dtype="int32"),
        layers.Embedding(20, 16),
        Positions(),
        layers.Conv1D(16, 1, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(2, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
random = np.random.default_rng(0)
words = random.integers(0, 20, (640, 9))
model.fit(words, (words[:, 0] > words[:, -1]).astype("int32"), batch_size=32, epochs=2, verbose=0)
