# Asked as: predictions change with pad_sequences(maxlen=...): is the padding masked in GlobalAveragePooling1D?
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(4)
words = np.random.randint(1, 200, size=(640, 30))
for row in words:
    row[np.random.randint(5, 31) :] = 0
positive = (words > 120).sum(1) > 0.4 * (words > 0).sum(1)

model = keras.Sequential()
model.add(layers.Input((None,), dtype="int32"))
model.add(layers.Embedding(200, 16))  # mistake
# repaired: model.add(layers.Embedding(200, 16, mask_zero=True))
model.add(layers.GlobalAveragePooling1D())
model.add(layers.Dense(16, activation="relu"))
model.add(layers.Dense(1, activation="sigmoid"))
model.compile("adam", "binary_crossentropy")
model.fit(words, positive.astype("float32"), batch_size=32, epochs=2, verbose=2)
