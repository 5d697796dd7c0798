"""The metrics of a predictor without input, from labels; numpy only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import MAX_CLASSES

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_POWERS: Final = {"l2": 1.0, "mse": 1.0, "rmse": 0.5, "l2_root": 0.5}
"""The metrics that are a power of the mean squared error."""
_AT: Final = re.compile(r"(?P<metric>ndcg|map)(?:@(?P<place>\d+))?-?")


@dataclass(frozen=True, slots=True)
class Scored:
    """What a metric is computed of beside predictions."""

    labels: Array
    """Shape ``(samples,)``."""
    weights: Array | None = None
    """Those of the samples, ``(samples,)``; None: all are equal."""
    groups: Array | None = None
    """The sizes of the groups that are ranked, ``(groups,)``; None: all samples are one group."""
    quantiles: tuple[float, ...] = ()
    """Those that are predicted; empty: not known."""
    gain: Callable[[Floats], Floats] = lambda labels: np.exp2(labels) - 1
    """Returns the gains of labels in NDCG."""


@dataclass(frozen=True, slots=True)
class GuessedMetric:
    """The value of a metric that a predictor without input reaches, and that of a perfect one."""

    level: float
    perfect: float = 0.0


def guess_of(metric: str, scored: Scored) -> GuessedMetric | None:
    """Return what guessing reaches in a metric of XGBoost or LightGBM: the best constant, or the mean of all orders.

    Units:
        Those of the metric.
    Not a number:
        None if a label or weight is not finite.
    Args:
        metric: Its name, ``rmse`` or ``ndcg@5``.
    Returns:
        None if it is not known for that metric.
    """
    labels = np.asarray(scored.labels, np.float64)
    weights = np.ones(len(labels)) if scored.weights is None else np.asarray(scored.weights, np.float64)
    if labels.ndim != 1 or not labels.size or weights.shape != labels.shape or not weights.sum() > 0:
        return None
    if not (np.isfinite(labels).all() and np.isfinite(weights).all()):
        return None
    if place := _AT.fullmatch(metric):
        is_plain = scored.weights is None and not metric.endswith("-")
        return _of_order(place["metric"], int(place["place"] or 0), scored) if is_plain else None
    return _of_constant(metric, labels, weights / weights.sum(), scored.quantiles)


def _of_constant(metric: str, labels: Floats, weights: Floats, quantiles: tuple[float, ...]) -> GuessedMetric | None:
    mean = float(labels @ weights)
    if metric in _POWERS:
        return GuessedMetric(float((labels - mean) ** 2 @ weights) ** _POWERS[metric])
    if metric in ("l1", "mae"):
        return GuessedMetric(2 * pinball(labels, weights, 0.5))
    if metric == "quantile":
        losses = [pinball(labels, weights, quantile) for quantile in quantiles]
        return GuessedMetric(sum(losses) / len(losses)) if losses else None
    if metric in ("poisson", "poisson-nloglik"):
        constant = float(np.vectorize(math.lgamma)(labels + 1) @ weights) if metric == "poisson-nloglik" else 0.0
        return poisson(labels, weights, constant) if labels.min() >= 0 else None
    if metric in ("logloss", "binary_logloss"):
        return _of_shares(labels, weights) if labels.min() >= 0 and labels.max() <= 1 else None
    if metric in ("mlogloss", "multi_logloss"):
        return _of_classes(labels, weights)
    if metric == "auc":
        return GuessedMetric(0.5, 1.0) if labels.min() < labels.max() else None
    return None


def pinball(values: Floats, weights: Floats, quantile: float) -> float:
    """Return the pinball loss of the best constant: the quantile of the values.

    Shape:
        values, weights: ``(n,)``; the weights add up to 1.
    """
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(weights[order]), quantile * (1 - 1e-12))
    errors = values - values[order][min(int(place), len(values) - 1)]
    return float(np.where(errors < 0, (quantile - 1) * errors, quantile * errors) @ weights)


def poisson(values: Floats, weights: Floats, constant: float = 0.0) -> GuessedMetric:
    """Return the Poisson loss of the mean, ``rate - y log(rate)``, and that of rates which are the values.

    Shape:
        values, weights: ``(n,)``; the weights add up to 1.
    Args:
        constant: What is added to the loss.
    """
    mean = float(values @ weights)
    perfect = float((values - _times_log(values)) @ weights)
    return GuessedMetric(mean - float(_times_log(np.array([mean]))[0]) + constant, perfect + constant)


def _times_log(values: Floats) -> Floats:
    return values * np.log(np.where(values > 0, values, 1.0))


def _of_shares(labels: Floats, weights: Floats) -> GuessedMetric:
    """Return the binary entropy of the mean of probabilities."""

    def entropy(shares: Floats) -> Floats:
        return -_times_log(shares) - _times_log(1 - shares)

    return GuessedMetric(float(entropy(np.array([labels @ weights]))[0]), float(entropy(labels) @ weights))


def _of_classes(labels: Floats, weights: Floats) -> GuessedMetric | None:
    classes = labels.astype(np.int64)
    if classes.min() < 0 or classes.max() >= MAX_CLASSES or (classes != labels).any():
        return None
    shares = np.bincount(classes, weights).astype(np.float64)
    return GuessedMetric(-float(_times_log(shares).sum()))


def _of_order(metric: str, place: int, scored: Scored) -> GuessedMetric | None:
    """Return the mean of a metric of ranking over all orders of each group."""
    of_group = _ndcg if metric == "ndcg" else _precision
    values = [of_group(labels, place or len(labels), scored) for labels in _groups(scored)]
    known = [value for value in values if value is not None]
    return GuessedMetric(sum(known) / len(known), 1.0) if known and len(known) == len(values) else None


def _groups(scored: Scored) -> Iterator[Floats]:
    labels = np.asarray(scored.labels, np.float64)
    sizes = np.array([len(labels)]) if scored.groups is None else np.asarray(scored.groups, np.int64)
    yield from (group for group in np.split(labels, np.cumsum(sizes)[:-1]) if len(group))


def _ndcg(labels: Floats, place: int, scored: Scored) -> float | None:
    gains = scored.gain(labels)
    discounts = 1 / np.log2(np.arange(2, min(place, len(labels)) + 2))
    ideal = float(np.sort(gains)[::-1][: len(discounts)] @ discounts)
    return float(gains.mean() * discounts.sum()) / ideal if ideal > 0 else 1.0


def _precision(labels: Floats, place: int, scored: Scored) -> float | None:
    """Return the mean of the average precision over all orders of labels that are 0 or 1; None: others."""
    if not np.isin(labels, (0, 1)).all():
        return None
    count, hits = len(labels), float(labels.sum())
    if not hits:
        return 1.0
    ranks = np.arange(1, min(place, count) + 1)
    before = (ranks - 1) * (hits - 1) / max(count - 1, 1)  # the hits in front of one, in the mean
    return float((hits / count * (1 + before) / ranks).sum()) / min(place, hits)
