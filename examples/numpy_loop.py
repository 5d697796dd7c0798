"""Logistic regression by hand: every tensor of it is captured by ``leadline.Hook``.

Alone: ``python numpy_loop.py``; judged live: ``leadline run --rule loss_not_decreasing numpy_loop.py``.
"""

from __future__ import annotations

import numpy as np

import leadline


def main(steps: int = 200) -> None:
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(2000, 10))
    labels = (samples @ generator.normal(size=10) > 0).astype(np.float64)
    train, held = slice(0, 1500), slice(1500, None)
    weight, rate = np.zeros(10), 0.5
    with leadline.Hook() as hook:
        for step in range(steps):
            predicted = predict(samples[train], weight)
            gradient = samples[train].T @ (predicted - labels[train]) / len(predicted)
            hook.log(loss=cross_entropy(labels[train], predicted), rate=rate)
            hook.save_tensor("weight", weight, collections="weights")
            hook.save_tensor("gradient/weight", gradient, collections="gradients")
            weight -= rate * gradient
            hook.step()
            if step % 20 == 19:
                with hook.mode("eval"):
                    hook.log(loss=cross_entropy(labels[held], predict(samples[held], weight)))
                    hook.step()
        print(f"held-out loss {cross_entropy(labels[held], predict(samples[held], weight)):.4f}")


def predict(samples: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-samples @ weight))


def cross_entropy(labels: np.ndarray, predicted: np.ndarray) -> float:
    inside = np.clip(predicted, 1e-12, 1 - 1e-12)
    return float(-np.mean(labels * np.log(inside) + (1 - labels) * np.log(1 - inside)))


if __name__ == "__main__":
    main()
