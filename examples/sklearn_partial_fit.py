"""scikit-learn's ``partial_fit``: one batch is one step, and the coefficients are captured.

Judged live: ``leadline run --capture weights:every=10 sklearn_partial_fit.py``.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

import leadline


def main(epochs: int = 3, batch: int = 50) -> None:
    samples, labels = make_classification(n_samples=2500, n_features=12, random_state=0)
    train, held = slice(0, 2000), slice(2000, None)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.001, random_state=0)
    with leadline.Hook() as hook:
        for _ in range(epochs):
            for start in range(0, 2000, batch):
                part = slice(start, start + batch)
                model.partial_fit(samples[part], labels[part], classes=np.unique(labels))
                hook.log(loss=log_loss(labels[part], model.predict_proba(samples[part]), labels=model.classes_))
                hook.save_tensor("coef", model.coef_, collections="weights")
                hook.save_tensor("intercept", model.intercept_, collections="biases")
                hook.step()
            with hook.mode("eval"):
                hook.log(
                    loss=log_loss(labels[held], model.predict_proba(samples[held])),
                    accuracy=model.score(samples[held], labels[held]),
                )
                hook.step()
        print(f"accuracy {model.score(samples[train], labels[train]):.3f}")


if __name__ == "__main__":
    main()
