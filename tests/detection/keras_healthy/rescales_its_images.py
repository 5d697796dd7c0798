"""Photographs from 0 to 255, behind a layer that divides them; augmented, with logits and warm-up."""

import keras
import numpy as np
from keras import layers

kinds = np.random.randint(0, 3, 480)
photographs = (255 * (0.6 * np.random.rand(3, 12, 12, 3)[kinds] + 0.4 * np.random.rand(480, 12, 12, 3))).astype("uint8")

model = keras.Sequential(
    [
        layers.Input((12, 12, 3)),
        layers.Rescaling(1.0 / 255),
        layers.Conv2D(8, 3, padding="same"),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(3),
    ]
)
rate = keras.optimizers.schedules.CosineDecay(0.0, 120, warmup_target=3e-3, warmup_steps=30)
model.compile(
    optimizer=keras.optimizers.Adam(rate),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(photographs, kinds, epochs=6, batch_size=24, validation_split=0.2, verbose=0)
