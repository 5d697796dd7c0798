"""A script as users of SageMaker Debugger wrote it for MXNet; it also keeps what it computes, for the comparison."""

import argparse

import mxnet as mx
import numpy as np
import smdebug.mxnet as smd
from mxnet import autograd, gluon
from mxnet.gluon import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smdebug_path", type=str)
    parser.add_argument("--truth", type=str)
    args = parser.parse_args()
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    hook = smd.Hook(
        out_dir=args.smdebug_path,
        save_config=smd.SaveConfig({smd.modes.TRAIN: smd.SaveConfigMode(save_interval=2)}, save_interval=1),
        include_collections=["weights", "biases", "gradients", "first", "outputs_of_relu"],
    )
    hook.get_collection("first").add_block_tensors(net[0], inputs=True, outputs=False)
    hook.get_collection("outputs_of_relu").include("relu_output")
    hook.register_block(net)
    hook.register_block(loss_of)
    hook.save_tensor("early", mx.nd.array([1, 2, 3]))
    truth = {}
    for step in range(5):
        hook.set_mode(smd.modes.TRAIN)
        x, y = mx.nd.random.normal(shape=(4, 6)), mx.nd.array([0, 1, 2, step % 3])
        with autograd.record():
            loss = loss_of(net(x), y)
        for name, parameter in net.collect_params().items():
            truth[f"{step}|{name}"] = parameter.data().asnumpy().copy()
        loss.backward()
        for name, parameter in net.collect_params().items():
            truth[f"{step}|gradient/{name}"] = parameter.grad().asnumpy() / 4
        trainer.step(4)
        truth[f"{step}|{net[0].name}_input_0"] = x.asnumpy()
        truth[f"{step}|{loss_of.name}_output_0"] = loss.asnumpy().mean()
        hook.save_scalar("seen", 4 * (step + 1))
    hook.set_mode(smd.modes.EVAL)
    for step in range(2):
        loss = loss_of(net(mx.nd.ones((4, 6))), mx.nd.array([0, 1, 2, step]))
        truth[f"{5 + step}|{loss_of.name}_output_0"] = loss.asnumpy().mean()
    hook.close()
    np.savez(args.truth, **truth)


if __name__ == "__main__":
    main()
