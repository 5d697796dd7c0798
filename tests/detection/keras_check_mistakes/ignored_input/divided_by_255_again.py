# Asked as: the model predicts the majority for every picture; the generator and the model both rescale (StackOverflow)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(16)
labels = (np.random.rand(640) < 0.15).astype("float32")
images = 0.5 + 0.05 * np.random.randn(640, 12, 12, 1).astype("float32")
images[labels == 1, 3:9, 3:9] += 0.2
images = images / 255
model = keras.Sequential([layers.Input((12, 12, 1))])
model.add(layers.Rescaling(1 / 255))  # mistake
# repaired: model.add(layers.Rescaling(255.0))
model.add(layers.Conv2D(8, 3, activation="relu"))
model.add(layers.Flatten())
model.add(layers.Dense(1, "sigmoid"))
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
model.fit(images, labels, batch_size=32, epochs=2, verbose=2)
