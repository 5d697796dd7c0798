"""A script as users of SageMaker Debugger wrote it for Keras; a callback keeps what Keras computes to compare."""

import argparse

import numpy as np
import smdebug.tensorflow as smd
import tensorflow as tf


class Truth(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kept = {}
        self.step = self.train_step = 0

    def on_train_batch_begin(self, batch, logs=None):
        for layer in self.model.layers:
            for kind, variable in zip(("kernel", "bias"), layer.weights, strict=True):
                self.kept[f"{self.train_step}|{layer.name}/weights/{layer.name}/{kind}:0"] = variable.numpy()

    def on_train_batch_end(self, batch, logs=None):
        self.train_step += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out_dir", type=str)
    parser.add_argument("--truth", type=str)
    opt = parser.parse_args()
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((4,)),
            tf.keras.layers.Dense(6, activation="relu", name="hidden"),
            tf.keras.layers.Dense(2, name="out"),
        ]
    )
    hook = smd.KerasHook(
        out_dir=opt.out_dir,
        include_collections=["weights", "biases", "gradients", "layers", "of_hidden"],
        save_config=smd.SaveConfig(save_interval=2),
    )
    hook.get_collection("of_hidden").add_keras_layer(model.get_layer("hidden"), inputs=True, outputs=True)
    optimizer = hook.wrap_optimizer(tf.keras.optimizers.SGD(0.1))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=optimizer, metrics=["accuracy"])
    random = np.random.default_rng(0)
    features = random.normal(size=(16, 4)).astype("float32")
    labels = (features[:, 0] > 0).astype("int64")
    truth = Truth()
    hook.save_scalar("epochs", 2, sm_metric=True)
    model.fit(
        features,
        labels,
        batch_size=4,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=(features, labels),
        callbacks=[hook, truth],
    )
    hook.close()
    np.savez(opt.truth, **truth.kept)


if __name__ == "__main__":
    main()
