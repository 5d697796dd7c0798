"""Trains models of several kinds with Gluon, one after the other; prints a digest of the parameters of each as JSON.

Arguments: a file for the truth, what each step should have captured, from copies that the script makes itself; and the
kinds, all if none is named.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.contrib import amp
from mxnet.contrib.amp.loss_scaler import LossScaler
from mxnet.gluon import nn

BATCH, STEPS = 16, 8
generator = np.random.default_rng(0)
X = generator.normal(size=(BATCH * STEPS, 12)).astype("float32")
Y = X[:, :3].argmax(1).astype("float32")
truth: list[dict[str, object]] = []
steps_so_far = 0


def batch(number):
    return X[number * BATCH : (number + 1) * BATCH], Y[number * BATCH : (number + 1) * BATCH]


def dense(*more, ctx=None):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu", in_units=12), *more, nn.Dense(3))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    return net


def l2(array):
    return float(np.linalg.norm(array.astype("float64")))


def note_truth(kind, net, trainer, batch_size, loss, **more):
    """Note loss, weights and gradients of a step before its update."""
    values = {"loss": float(np.concatenate([each.asnumpy() for each in loss]).mean())}
    for parameter in net.collect_params().values():
        if parameter.grad_req == "null":
            continue
        gradient = sum(each.asnumpy() for each in parameter.list_grad())
        if len(parameter.list_grad()) > 1 and more.get("is_reduced"):
            gradient = parameter.list_grad()[0].asnumpy()
        values[f"gradient/{parameter.name}"] = l2(gradient * np.float32(trainer._scale / batch_size))
        values[parameter.name] = l2(parameter.list_data()[0].asnumpy())
    values |= {name: l2(array.asnumpy()) for name, array in more.get("layers", {}).items()}
    truth.append({"kind": kind, "step": steps_so_far, "values": values})


def train(kind, net, optimizer="adam", settings=None, *, scheduled=None, clip=None, **of_trainer):
    """The usual loop."""
    global steps_so_far
    settings = settings or ({"lr_scheduler": scheduled} if scheduled else {"learning_rate": 0.01})
    trainer = gluon.Trainer(net.collect_params(), optimizer, settings, **of_trainer)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        with autograd.record():
            outputs = net(x)
            loss = loss_function(outputs, y)
        loss.backward()
        note_truth(
            kind, net, trainer, BATCH, [loss], layers={f"{net.name}_output_0": outputs, f"{net.name}_input_0": x}
        )
        if clip is not None:
            gradients = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
            gluon.utils.clip_global_norm(gradients, clip * BATCH)
        trainer.step(BATCH)
        steps_so_far += 1
    return [net]


def hybridized(**flags):
    net = dense(nn.BatchNorm(), nn.Dropout(0.2))
    net.hybridize(**flags)
    return net


def wide(kind):
    """Steps that are so long that the loss is read later."""
    global steps_so_far
    net = nn.HybridSequential()
    net.add(nn.Dense(1024, activation="relu"), nn.Dense(1024, activation="relu"), nn.Dense(10))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = nd.random.normal(shape=(512, 512)), nd.zeros(512)
    for _ in range(12):
        with autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        truth.append({"kind": kind, "step": steps_so_far, "values": {"loss": float(loss.asnumpy().mean())}})
        loss[:] = -1  # what the script does with its loss afterwards is not captured
        trainer.step(512)
        steps_so_far += 1
    return [net]


def convolution():
    net = nn.HybridSequential()
    net.add(
        nn.HybridLambda(lambda F, x: F.reshape(x, (-1, 1, 3, 4))),
        nn.Conv2D(4, 2),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.GlobalAvgPool2D(),
        nn.Dropout(0.2),
        nn.Dense(3),
    )
    net.initialize()
    return net


def adversaries():
    """Two trainers, whose first is the clock."""
    global steps_so_far
    judging, generating = nn.Dense(1, in_units=12), nn.Dense(12, in_units=4)
    for net in (judging, generating):
        net.initialize()
    of_judge, of_generator = (gluon.Trainer(net.collect_params(), "adam") for net in (judging, generating))
    loss_function = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    ones, zeros = nd.ones((BATCH,)), nd.zeros((BATCH,))
    for number in range(STEPS):
        real, noise = nd.array(batch(number)[0]), nd.random.normal(shape=(BATCH, 4))
        with autograd.record():
            made = generating(noise)
            judged = loss_function(judging(real), ones) + loss_function(judging(made.detach()), zeros)
        judged.backward()
        of_judge.step(BATCH)
        with autograd.record():
            fooled = loss_function(judging(generating(noise)), ones)
        fooled.backward()
        of_generator.step(BATCH)
        steps_so_far += 1
    return [judging, generating]


def accumulation():
    """Four batches for each update."""
    global steps_so_far
    net, loss_function = dense(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.collect_params().setattr("grad_req", "add")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    losses = []
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        with autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        losses.append(loss)
        if number % 4 == 3:
            note_truth("accumulation", net, trainer, 4 * BATCH, losses)
            trainer.step(4 * BATCH)
            net.collect_params().zero_grad()
            losses = []
            steps_so_far += 1
    return [net]


def several_contexts(kind, **of_trainer):
    global steps_so_far
    contexts = [mx.cpu(0), mx.cpu(1)]
    net, loss_function = dense(ctx=contexts), gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, **of_trainer)
    for number in range(STEPS):
        xs, ys = (gluon.utils.split_and_load(each, contexts) for each in batch(number))
        with autograd.record():
            losses = [loss_function(net(x), y) for x, y in zip(xs, ys, strict=True)]
        autograd.backward(losses)
        note_truth(kind, net, trainer, BATCH, losses)
        trainer.step(BATCH)
        steps_so_far += 1
    return [net]


def split_update():
    """Gradients are reduced and applied by two calls, and change in between."""
    global steps_so_far
    contexts = [mx.cpu(0), mx.cpu(1)]
    net, loss_function = dense(ctx=contexts), gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, update_on_kvstore=False)
    for number in range(STEPS):
        xs, ys = (gluon.utils.split_and_load(each, contexts) for each in batch(number))
        with autograd.record():
            losses = [loss_function(net(x), y) for x, y in zip(xs, ys, strict=True)]
        for loss in losses:
            loss.backward()
        trainer.allreduce_grads()
        for parameter in net.collect_params().values():
            for gradient in parameter.list_grad():
                gradient[:] = nd.clip(gradient, -0.5, 0.5)
        note_truth("split_update", net, trainer, BATCH, losses, is_reduced=True)
        trainer.update(BATCH)
        steps_so_far += 1
    return [net]


def recurrent():
    global steps_so_far
    net = nn.HybridSequential()
    net.add(gluon.rnn.LSTM(6, layout="NTC"), nn.Dense(3))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "rmsprop", {"learning_rate": 0.01})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        with autograd.record():
            loss = loss_function(net(x.reshape((-1, 3, 4))), y).mean()
        loss.backward()
        trainer.step(1)
        steps_so_far += 1
    return [net]


def sparse():
    """The gradient of an embedding holds only the rows that occur."""
    global steps_so_far
    net = nn.Sequential()
    net.add(nn.Embedding(50, 8, sparse_grad=True), nn.Dense(3))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        with autograd.record():
            loss = loss_function(net(nd.abs(x[:, :4] * 10).clip(0, 49).floor()), y)
        loss.backward()
        trainer.step(BATCH)
        steps_so_far += 1
    return [net]


def sparse_weights():
    """The store holds the rows of an embedding, and updates them."""
    global steps_so_far
    embedding, net = gluon.contrib.nn.SparseEmbedding(50, 8), nn.Dense(3)
    for block in (embedding, net):
        block.initialize()
    parameters = embedding.collect_params()
    parameters.update(net.collect_params())
    trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 0.1})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        with autograd.record():
            loss = loss_function(net(embedding(nd.abs(x[:, :4] * 10).clip(0, 49).floor())), y)
        loss.backward()
        trainer.step(BATCH)
        steps_so_far += 1
    return [net]


def evaluated():
    """Each epoch ends with an evaluation."""
    global steps_so_far
    net, loss_function = dense(nn.Dropout(0.3)), gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    data = gluon.data.ArrayDataset(X, Y)
    for _ in range(2):
        accuracy = mx.metric.Accuracy()
        for x, y in gluon.data.DataLoader(data, batch_size=32, shuffle=False):
            with autograd.record():
                loss = loss_function(net(x), y)
            loss.backward()
            trainer.step(32)
            steps_so_far += 1
        for x, y in gluon.data.DataLoader(data, batch_size=64):
            outputs = net(x)
            loss_function(outputs, y).mean().asscalar()
            accuracy.update(y, outputs)
    return [net]


def numpy_interface():
    """MXNet's arrays with the interface of numpy."""
    global steps_so_far
    mx.npx.set_np()
    try:
        net = nn.HybridSequential()
        net.add(nn.Dense(16, activation="relu"), nn.Dense(3))
        net.initialize()
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam")
        loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
        for number in range(STEPS):
            x, y = map(mx.np.array, batch(number))
            with autograd.record():
                loss = loss_function(net(x), y)
            loss.backward()
            trainer.step(BATCH)
            steps_so_far += 1
        return [net]
    finally:
        mx.npx.reset_np()


def scaled_loss():
    """The loss scaling of AMP; its operators in half precision need a GPU."""
    global steps_so_far
    net, loss_function = dense(), gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, update_on_kvstore=False)
    trainer._amp_loss_scaler, trainer._amp_original_scale = LossScaler(), trainer._scale  # as amp.init_trainer does
    for number in range(STEPS):
        x, y = map(nd.array, batch(number))
        if number == 3:
            x = x * 1e38  # a gradient that is not finite: AMP skips the update
        with autograd.record():
            loss = loss_function(net(x), y)
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        if number != 3:
            note_truth("scaled_loss", net, trainer, BATCH, [loss])
        trainer.step(BATCH)
        steps_so_far += 1
    return [net]


KINDS = {
    "plain": lambda: train("plain", dense()),
    "hybridized": lambda: train("hybridized", hybridized()),
    "wide": lambda: wide("wide"),
    "static_shape": lambda: train("static_shape", hybridized(static_alloc=True, static_shape=True)),
    "convolution": lambda: train("convolution", convolution(), "nag", {"learning_rate": 0.1, "momentum": 0.9}),
    "scheduled": lambda: train(
        "scheduled", dense(), "sgd", scheduled=mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    ),
    "clipped": lambda: train("clipped", dense(), "sgd", clip=0.05),
    "adversaries": adversaries,
    "accumulation": accumulation,
    "several_contexts": lambda: several_contexts("several_contexts"),
    "reduced": lambda: several_contexts("reduced", update_on_kvstore=False),
    "split_update": split_update,
    "recurrent": recurrent,
    "sparse": sparse,
    "sparse_weights": sparse_weights,
    "evaluated": evaluated,
    "numpy_interface": numpy_interface,
    "scaled_loss": scaled_loss,
}


def digest(nets):
    values = [p.data(p.list_ctx()[0]).asnumpy().tobytes() for net in nets for p in net.collect_params().values()]
    return hashlib.sha256(b"".join(values)).hexdigest()


def main(truth_file, *kinds):
    digests, first_steps = {}, {}
    for kind in kinds or KINDS:
        mx.random.seed(3)
        np.random.seed(3)
        first_steps[kind] = steps_so_far
        digests[kind] = digest(KINDS[kind]())
        gc.collect()  # a trainer and its parameters refer to each other
    with open(truth_file, "w") as file:
        json.dump({"truth": truth, "first_steps": first_steps, "steps": steps_so_far}, file)
    print(json.dumps(digests))


main(*sys.argv[1:])
