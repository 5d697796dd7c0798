"""What guessing reaches in the metrics of boosters, against metrics of constants and of all orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from leadline.statistics.guessing import Scored, guess_of

GENERATOR = np.random.default_rng(0)
COUNTS = GENERATOR.poisson(3.0, 60).astype(np.float64)
WEIGHTS = GENERATOR.uniform(0.5, 2.0, 60)


def pinball(labels: np.ndarray, constant: float, quantile: float) -> np.ndarray:
    return np.where(labels < constant, (1 - quantile) * (constant - labels), quantile * (labels - constant))


def nloglik(labels: np.ndarray, rate: float) -> np.ndarray:
    return np.array([math.lgamma(label + 1) + rate - label * math.log(rate) for label in labels])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("metric", "loss"),
    [
        ("l1", lambda y, c: abs(y - c)),
        ("mae", lambda y, c: abs(y - c)),
        ("l2", lambda y, c: (y - c) ** 2),
        ("quantile", lambda y, c: pinball(y, c, 0.9)),
        ("poisson", lambda y, c: c - y * math.log(c)),
        ("poisson-nloglik", nloglik),
    ],
)
def test_guessing_is_the_best_constant(metric: str, loss: object, weights: np.ndarray | None) -> None:
    found = guess_of(metric, Scored(COUNTS, weights, quantiles=(0.9,)))
    assert found is not None
    constants = np.unique([*COUNTS[COUNTS > 0], *np.linspace(0.05, 9, 2000)])
    best = min(np.average(loss(COUNTS, constant), weights=weights) for constant in constants)  # type: ignore[operator]
    assert found.level == pytest.approx(best, abs=1e-5)
    assert found.perfect < found.level


def test_the_shares_of_classes_are_the_best_probabilities() -> None:
    labels = np.array([0.0] * 30 + [1.0] * 10)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    for metric in ("logloss", "binary_logloss", "mlogloss", "multi_logloss"):
        assert guess_of(metric, Scored(labels)).level == pytest.approx(entropy)  # type: ignore[union-attr]
    assert guess_of("rmse", Scored(labels)).level == pytest.approx(math.sqrt(0.75 * 0.25))  # type: ignore[union-attr]
    assert guess_of("auc", Scored(labels)).level == 0.5  # type: ignore[union-attr]


def ndcg(labels: tuple[float, ...], place: int) -> float:
    def gained(order: list[float]) -> float:
        return sum((2**label - 1) / math.log2(rank + 2) for rank, label in enumerate(order[:place]))

    return gained(list(labels)) / gained(sorted(labels, reverse=True))


def precision(labels: tuple[float, ...], place: int) -> float:
    hits = [rank for rank, label in enumerate(labels[:place]) if label]
    return sum((number + 1) / (rank + 1) for number, rank in enumerate(hits)) / min(place, sum(labels))


@pytest.mark.parametrize(
    ("metric", "oracle", "labels"),
    [("ndcg", ndcg, (0.0, 1.0, 1.0, 2.0, 0.0)), ("map", precision, (0.0, 1.0, 1.0, 0.0, 0.0))],
)
@pytest.mark.parametrize("place", [1, 2, 4, 5])
def test_guessing_an_order_is_the_mean_of_all_orders(
    metric: str, oracle: object, labels: tuple[float, ...], place: int
) -> None:
    mean = np.mean([oracle(order, place) for order in itertools.permutations(labels)])  # type: ignore[operator]
    both = np.array([*labels, 0.0, 0.0])  # and a group without anything to find, which is right in any order
    found = guess_of(f"{metric}@{place}", Scored(both, groups=np.array([5, 2])))
    assert found is not None
    assert found.level == pytest.approx((mean + 1) / 2)


@pytest.mark.parametrize(
    ("metric", "scored"),
    [
        ("quantile", Scored(COUNTS)),
        ("gamma", Scored(COUNTS)),
        ("map", Scored(COUNTS)),
        ("ndcg-", Scored(COUNTS)),
        ("poisson", Scored(-COUNTS)),
        ("auc", Scored(np.ones(4))),
        ("l1", Scored(np.array([1.0, np.nan]))),
        ("l1", Scored(np.zeros(0))),
        ("l1", Scored(np.zeros((2, 2)))),
        ("logloss", Scored(COUNTS)),
        ("mlogloss", Scored(COUNTS + 0.5)),
    ],
)
def test_what_guessing_reaches_is_not_known(metric: str, scored: Scored) -> None:
    assert guess_of(metric, scored) is None
