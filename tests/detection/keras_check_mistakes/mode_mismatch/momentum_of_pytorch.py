# Asked as: converting a PyTorch model: BatchNormalization(momentum=0.1) validates much worse (GitHub, keras)
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(13)
images = np.random.rand(320, 12, 12, 3).astype("float32")
labels = (images[..., 0].mean((1, 2)) > 0.5).astype("float32")
model = keras.Sequential([layers.Input((12, 12, 3)), layers.Conv2D(8, 3)])
model.add(layers.BatchNormalization(momentum=0.1))  # mistake
# repaired: model.add(layers.BatchNormalization(momentum=0.9))
model.add(layers.ReLU())
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(1, "sigmoid"))
model.compile("adam", "binary_crossentropy")
model.fit(images, labels, batch_size=16, verbose=2)
