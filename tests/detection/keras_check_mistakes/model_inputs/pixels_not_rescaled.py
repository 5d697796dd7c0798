# Asked as: Keras CNN does not learn, do I have to divide the images by 255? (StackOverflow)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(17)
images = np.random.randint(0, 256, (320, 12, 12, 3)).astype("float32")
labels = (images[..., 0].mean((1, 2)) > 127).astype("float32")
images = images / 1  # mistake
# repaired: images = images / 255
model = keras.Sequential([layers.Input((12, 12, 3)), layers.Conv2D(8, 3, activation="relu")])
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(1, "sigmoid"))
model.compile("adam", "binary_crossentropy")
model.fit(images, labels, batch_size=16, verbose=2)
