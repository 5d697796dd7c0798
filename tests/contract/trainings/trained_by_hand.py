"""A linear model by hand, captured by the hook, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import numpy as np

import leadline

CAPTURE = ["all:every=1", "weights:every=2,raw=true", "predictions:every=1,modes=eval"]


def owners() -> list[Any]:
    return [np, np.ndarray, np.random]


def train() -> bytes:
    np.random.seed(3)
    generator = np.random.default_rng(3)
    samples, true = generator.normal(size=(100, 4)), generator.normal(size=4)
    targets, weight = samples @ true, np.zeros(4)
    hook = leadline.Hook()
    for _ in range(6):
        error = samples @ weight - targets
        gradient = samples.T @ error / len(error)
        hook.log(loss=float(np.mean(error**2)), rate=0.1)
        hook.save_tensor("weight", weight, collections="weights")
        hook.save_tensor("gradient/weight", gradient, collections=["gradients"])
        hook.save_tensor("error", error)
        weight -= 0.1 * gradient
        hook.step()
    with hook.mode("eval"):
        hook.log(loss=float(np.mean((samples @ weight - targets) ** 2)))
        hook.save_tensor("predictions", samples @ weight, collections="predictions")
        hook.step()
    return weight.tobytes() + repr(np.random.get_state()).encode()
