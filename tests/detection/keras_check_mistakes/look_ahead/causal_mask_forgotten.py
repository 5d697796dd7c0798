# Asked as: my Keras language model reaches a loss of nearly 0 and generates nonsense (StackOverflow)
import keras
import numpy as np
from keras import layers

VOCABULARY, LENGTH, WIDTH = 50, 24, 32
keras.utils.set_random_seed(3)
tokens = np.random.randint(0, VOCABULARY, (640, LENGTH + 1))
tokens[:, 2::3] = tokens[:, 1::3][:, : tokens[:, 2::3].shape[1]]

given = keras.Input((LENGTH,), dtype="int32")
places = layers.Embedding(LENGTH, WIDTH)(keras.ops.arange(LENGTH))
x = layers.Embedding(VOCABULARY, WIDTH)(given) + places
for _ in range(2):
    normed = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 16)(normed, normed)  # mistake
    # repaired: x = x + layers.MultiHeadAttention(2, 16)(normed, normed, use_causal_mask=True)
    x = x + layers.Dense(WIDTH)(layers.Dense(64, "gelu")(layers.LayerNormalization()(x)))
model = keras.Model(given, layers.Dense(VOCABULARY)(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(tokens[:, :-1], tokens[:, 1:], batch_size=16, epochs=1, verbose=2)
