"""Series of several lengths with a Masking layer, one batch at a time."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(4)
series = np.random.randn(320, 20, 5).astype("float32")
for row in series:
    row[np.random.randint(5, 21) :] = 0
target = series[..., 0].sum(1)
model = keras.Sequential([layers.Input((None, 5)), layers.Masking(), layers.GRU(16), layers.Dense(1)])
model.compile(keras.optimizers.RMSprop(1e-3), "huber")
for epoch in range(2):
    for at in range(0, 320, 16):
        loss = model.train_on_batch(series[at : at + 16], target[at : at + 16])
print(float(loss))
