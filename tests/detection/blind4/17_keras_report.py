"""Train an image classifier on a tf.data pipeline and report the confusion matrix."""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)
CLASSES = ["square", "cross", "ring", "stripes"]
SIDE = 20


def draw(label, rng):
    image = rng.normal(0.3, 0.15, (SIDE, SIDE, 1))
    y, x = rng.integers(0, SIDE - 10, 2)
    patch = np.zeros((10, 10))
    if label == 0:
        patch[1:9, 1:9] = 1
    elif label == 1:
        patch[4:6] = patch[:, 4:6] = 1
    elif label == 2:
        patch[1:9, 1:9] = 1
        patch[3:7, 3:7] = 0
    else:
        patch[::3] = 1
    image[y : y + 10, x : x + 10, 0] += 0.5 * patch
    return np.clip(image, 0, 1) * 255


def make_dataset(count, seed, batch_size=32, shuffle=True):
    """In the form that image_dataset_from_directory returns: batches, shuffled at every pass."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(CLASSES)), count // len(CLASSES))
    images = np.stack([draw(label, rng) for label in labels]).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    if shuffle:
        dataset = dataset.shuffle(8 * batch_size + count, seed=seed)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def build_model():
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(32, activation="relu"),
            layers.Dense(len(CLASSES)),
        ]
    )


def main():
    train_ds = make_dataset(2400, seed=1)
    val_ds = make_dataset(400, seed=2)
    test_ds = make_dataset(400, seed=3, shuffle=not FIXED)

    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train_ds, validation_data=val_ds, epochs=14, verbose=2)

    y_pred = np.argmax(model.predict(test_ds, verbose=0), axis=1)
    y_true = np.concatenate([labels for _, labels in test_ds])
    matrix = np.zeros((len(CLASSES), len(CLASSES)), int)
    np.add.at(matrix, (y_true, y_pred), 1)
    print("rows: true class, columns: predicted class")
    for name, row in zip(CLASSES, matrix, strict=True):
        precision = row[CLASSES.index(name)] / max(matrix[:, CLASSES.index(name)].sum(), 1)
        print(f"{name:>8}", row, f"recall {row[CLASSES.index(name)] / row.sum():.2f} precision {precision:.2f}")
    print(f"accuracy in the report {np.trace(matrix) / matrix.sum():.3f}")


if __name__ == "__main__":
    main()
