"""Images with batch normalization, augmentation within the model, class weights and label smoothing."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(3)
images = np.random.randint(0, 256, (480, 16, 16, 3)).astype("uint8")
labels = keras.utils.to_categorical(images[..., 0].mean((1, 2)) > 127, 2)
given = keras.Input((16, 16, 3))
x = layers.Rescaling(1 / 127.5, offset=-1)(layers.RandomFlip("horizontal")(given))
x = layers.Conv2D(8, 3, padding="same")(x)
for _ in range(2):
    y = layers.ReLU()(layers.BatchNormalization()(x))
    x = x + layers.Conv2D(8, 3, padding="same", use_bias=False)(y)
x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
model = keras.Model(given, layers.Dense(2)(x))
schedule = keras.optimizers.schedules.CosineDecay(0.05, 100)
loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
model.compile(keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True), loss, metrics=["accuracy"])
model.fit(images, labels, batch_size=24, epochs=2, class_weight={0: 1.0, 1: 2.0}, verbose=0)
