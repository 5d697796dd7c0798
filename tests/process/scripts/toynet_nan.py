"""Trains a network of the toy framework; from step 7 on a feature is infinite, so that losses and gradients are NaN."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "contract" / "toy_framework"))

import toynet
import toynet_adapter  # noqa: F401 - Leadline then waits for toynet

import leadline

leadline.watch()
generator = np.random.default_rng(0)
model = toynet.Sequential("network", toynet.Linear("first", 5, 8, generator), toynet.Linear("last", 8, 1, generator))
loss_of, optimizer = toynet.MeanSquaredError(), toynet.Momentum(model, 0.01)
np.seterr(all="ignore")
for step in range(3000):
    x = generator.normal(size=(16, 5))
    if step >= 7:
        x[0, 0] = np.inf
    loss_of(model(toynet.Tensor(x)), toynet.Tensor(x[:, :1] * 0.5)).backward()
    optimizer.step()
    time.sleep(0.01)
print("the script went on")
