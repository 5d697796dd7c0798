"""Importances and predictions through XGBoost's C interface, which is faster than the Python package."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Final

import numpy as np
from xgboost import core

from leadline.frameworks.boosting.booster import Array, Floats

_PREDICTION: Final = json.dumps(
    {"type": 0, "training": False, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
).encode()
_FLOAT_BYTES: Final = 4
_Size: Final = ctypes.c_uint64
_Pointer: Final = ctypes.c_void_p


class Library:
    """Two functions of XGBoost's C interface.

    Their results are in the library's own memory until its next call in this thread, so they are copied at once.

    Raises:
        AttributeError: This version of XGBoost has no such functions.
    """

    def __init__(self) -> None:
        self._score, self._predict = core._LIB.XGBoosterFeatureScore, core._LIB.XGBoosterPredictFromDMatrix
        self._check = core._check_call
        self._parameters: dict[str, bytes] = {}

    def importance(self, booster: Any, kind: str, indices: dict[bytes, int]) -> Floats:
        """Return the importance of each feature of boosted trees.

        Shape:
            result: ``(features,)``; 0 for a feature that no tree uses.
        Args:
            kind: ``weight``, ``total_gain`` …
            indices: Index of each feature, by its name.
        """
        if kind not in self._parameters:
            self._parameters[kind] = json.dumps({"importance_type": kind, "feature_map": ""}).encode()
        count, dimensions = _Size(), _Size()
        names, shape, scores = ctypes.POINTER(ctypes.c_char_p)(), _Pointer(), _Pointer()
        self._check(
            self._score(
                booster.handle,
                self._parameters[kind],
                ctypes.byref(count),
                ctypes.byref(names),
                ctypes.byref(dimensions),
                ctypes.byref(shape),
                ctypes.byref(scores),
            )
        )
        importances = np.zeros(len(indices), np.float64)
        size = count.value
        if size:
            importances[[indices[name] for name in names[:size]]] = _floats(scores, size)
        return importances

    def predictions(self, booster: Any, data: Any) -> Array:
        """Return the predictions of all trees for some samples.

        Shape:
            result: ``(samples,)`` or ``(samples, classes)``.
        """
        dimensions, shape, values = _Size(), _Pointer(), _Pointer()
        self._check(
            self._predict(
                booster.handle,
                data.handle,
                _PREDICTION,
                ctypes.byref(shape),
                ctypes.byref(dimensions),
                ctypes.byref(values),
            )
        )
        sizes = (_Size * dimensions.value).from_address(shape.value or 0)[:] if dimensions.value else ()
        return _floats(values, int(np.prod(sizes, dtype=np.int64))).reshape(sizes)


def _floats(address: ctypes.c_void_p, count: int) -> Array:
    return np.frombuffer(ctypes.string_at(address, _FLOAT_BYTES * count), np.float32)
