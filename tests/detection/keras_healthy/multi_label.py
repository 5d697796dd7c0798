"""Tags of images: several may be true, so that each has a sigmoid of its own."""

import numpy as np
from keras import layers, models

tags = (np.random.rand(640, 6) < 0.3).astype("float32")
parts = np.random.rand(6, 10, 10)
x = np.einsum("nt,thw->nhw", tags, parts)[..., None] / 2 + 0.1 * np.random.rand(640, 10, 10, 1)

model = models.Sequential()
model.add(layers.Input((10, 10, 1)))
model.add(layers.Conv2D(8, 3, activation="relu", padding="same"))
model.add(layers.MaxPooling2D())
model.add(layers.Flatten())
model.add(layers.Dropout(0.25))
model.add(layers.Dense(6, activation="sigmoid"))
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["binary_accuracy"])
model.fit(x, tags, epochs=6, batch_size=16, validation_split=0.2, verbose=0)
