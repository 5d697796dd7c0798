"""A script as the notebooks of SageMaker Debugger have them for MXNet: an autoencoder of generated images."""

import argparse

import mxnet as mx
import numpy as np
import smdebug.mxnet as smd
from mxnet import gluon


class ConvolutionalAutoencoder(gluon.nn.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.encoder = gluon.nn.HybridSequential()
            with self.encoder.name_scope():
                self.encoder.add(gluon.nn.Conv2D(4, 3, activation="relu"))
                self.encoder.add(gluon.nn.Dense(5))
            self.decoder = gluon.nn.HybridSequential()
            with self.decoder.name_scope():
                self.decoder.add(gluon.nn.Dense(64, activation="sigmoid"))

    def hybrid_forward(self, F, x, label):
        return self.decoder(self.encoder(x)).reshape((-1, 1, 8, 8)), label


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=16)
    args = parser.parse_args()
    mx.random.seed(1)
    images = mx.nd.array(np.random.default_rng(1).random((64, 1, 8, 8)))
    labels = mx.nd.array(np.arange(64) % 10)
    data = gluon.data.ArrayDataset(images, labels)
    train_data = gluon.data.DataLoader(data, batch_size=args.batch_size)
    test_data = gluon.data.DataLoader(data, batch_size=32)
    model, loss_function = ConvolutionalAutoencoder(), gluon.loss.L2Loss()
    model.collect_params().initialize(mx.init.Xavier("gaussian"))
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.01})
    hook = smd.Hook.create_from_json_file()
    for _ in range(args.num_epochs):
        hook.set_mode(smd.modes.TRAIN)
        for image, label in train_data:
            with mx.autograd.record():
                output, _ = model(image, label)
                loss = loss_function(output, image)
            loss.backward()
            trainer.step(image.shape[0])
        hook.set_mode(smd.modes.EVAL)
        for image, label in test_data:
            output, _ = model(image, label)
            loss_function(output, image)
    mx.nd.waitall()


if __name__ == "__main__":
    main()
