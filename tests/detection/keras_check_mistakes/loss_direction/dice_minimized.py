# Asked as: Dice loss in Keras goes to 0 and all masks are empty: is it 1 - dice or dice? (StackOverflow)
import keras
import numpy as np
from keras import layers, ops


def dice_loss(labels, predictions):
    shared = ops.sum(labels * predictions, axis=(1, 2, 3))
    dice = (2 * shared + 1) / (ops.sum(labels, axis=(1, 2, 3)) + ops.sum(predictions, axis=(1, 2, 3)) + 1)
    return dice  # mistake
    # repaired: return 1 - dice


keras.utils.set_random_seed(7)
images = np.random.rand(320, 16, 16, 1).astype("float32")
masks = (images > 0.6).astype("float32")
model = keras.Sequential(
    [
        layers.Input((16, 16, 1)),
        layers.Conv2D(8, 3, padding="same", activation="relu"),
        layers.Conv2D(1, 1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), dice_loss)
model.fit(images, masks, batch_size=16, verbose=2)
