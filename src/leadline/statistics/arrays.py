"""The numpy form of every statistic: what tests and the reader hold the devices to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def compute(name: str, values: Array, before: Array | None = None) -> float:
    """One statistic of an array, accumulated in float64.

    Shape:
        values: any ``(*shape,)``; result: ``()``.
    Units:
        Those of ``leadline.statistics.definitions``.
    Not a number:
        As the statistic's definition says; of an empty array NaN, the counts 0.
    Args:
        before: For ``update_ratio``: the array before the change; ``values`` is the one after it.
    Raises:
        KeyError: No statistic of one array has that name.
    Source:
        Entrywise norms and population variance, as in the design.
    """
    if name == "update_ratio":
        if before is None:
            raise KeyError("update_ratio needs the array before the change")
        return update_ratio(before, values)
    return _FORMS[name](_widen(values))


def update_ratio(before: Array, after: Array) -> float:
    """Norm of a tensor's update, relative to the tensor.

    Shape:
        before, after: any, both alike ``(*shape,)``; result: ``()``.
    Units:
        A ratio; 0 = unchanged.
    Not a number:
        NaN in, NaN out; an all-zero ``before`` gives infinity, or 0 where nothing changed.
    Source:
        SageMaker developer guide, "WeightUpdateRatio".
    """
    change = float(np.linalg.norm((after.astype(np.float64) - before.astype(np.float64)).ravel()))
    norm = float(np.linalg.norm(before.astype(np.float64).ravel()))
    if norm == 0.0:
        return 0.0 if change == 0.0 else float("inf")
    return change / norm


def _widen(values: Array) -> Array:
    flat = np.asarray(values).ravel()
    return np.abs(flat).astype(np.float64) if np.iscomplexobj(flat) else flat.astype(np.float64)


def _finite(flat: Array) -> Array:
    finite = flat[np.isfinite(flat)]
    return finite if finite.size else flat


def _or_nan(form: Callable[[Array], Any]) -> Callable[[Array], float]:
    def guarded(flat: Array) -> float:
        with np.errstate(all="ignore"):
            return float(form(flat)) if flat.size else float("nan")

    return guarded


_FORMS: Final[dict[str, Callable[[Array], float]]] = {
    "min": _or_nan(lambda flat: _finite(flat).min()),
    "max": _or_nan(lambda flat: _finite(flat).max()),
    "sum": _or_nan(np.sum),
    "mean": _or_nan(np.mean),
    "l1": _or_nan(lambda flat: np.abs(flat).sum()),
    "l2": _or_nan(np.linalg.norm),
    "abs_mean": _or_nan(lambda flat: np.abs(flat).mean()),
    "abs_max": _or_nan(lambda flat: np.abs(_finite(flat)).max()),
    "rms": _or_nan(lambda flat: np.sqrt(np.mean(flat * flat))),
    "std": _or_nan(np.std),
    "variance": _or_nan(np.var),
    "zero_ratio": _or_nan(lambda flat: np.count_nonzero(flat == 0) / flat.size),
    "nan_count": lambda flat: float(np.count_nonzero(np.isnan(flat))),
    "nonfinite_count": lambda flat: float(np.count_nonzero(~np.isfinite(flat))),
}
