"""A GAN in Gluon: two networks, two trainers, sigmoid cross entropy."""

import sys

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

steps = int(sys.argv[1])
mx.random.seed(int(sys.argv[2]))
netG, netD = nn.Sequential(), nn.Sequential()
netG.add(nn.Dense(32, activation="relu"), nn.Dense(32, activation="relu"), nn.Dense(2))
netD.add(nn.Dense(32), nn.LeakyReLU(0.2), nn.Dense(1))
for net in (netG, netD):
    net.initialize(mx.init.Xavier())
loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
trainerG = gluon.Trainer(netG.collect_params(), "adam", {"learning_rate": 2e-3, "beta1": 0.5})
trainerD = gluon.Trainer(netD.collect_params(), "adam", {"learning_rate": 2e-3, "beta1": 0.5})
target = nd.array([[2.0, -1.0]])
ones, zeros = nd.ones((64, 1)), nd.zeros((64, 1))


def noise(n=64):
    return nd.random.normal(shape=(n, 4))


def distance():
    return float((netG(noise(256)).mean(0) - target[0]).norm().asscalar())


before = distance()
for step in range(max(40, steps // 2)):
    real = target + 0.4 * nd.random.normal(shape=(64, 2))
    with autograd.record():
        loss_d = loss(netD(real), ones) + loss(netD(netG(noise()).detach()), zeros)
    loss_d.backward()
    trainerD.step(64)
    with autograd.record():
        loss_g = loss(netD(netG(noise())), ones)
    loss_g.backward()
    trainerG.step(64)
    if step % 25 == 0:
        print(step, float(loss_d.mean().asscalar()), float(loss_g.mean().asscalar()))
print(f"distance fell from {before:.4g} to {distance():.4g}")
