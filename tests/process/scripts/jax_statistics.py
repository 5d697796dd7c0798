"""Prints, as JSON, where statistics computed by JAX differ from those of numpy."""

from __future__ import annotations

import json
import math

import jax
import numpy as np

from leadline.frameworks.capture_requests import DEVICE_STATISTICS, derive, primaries_of
from leadline.frameworks.jax.kernels import summarize
from leadline.statistics.arrays import compute

generator = np.random.default_rng(0)
INF, NAN = float("inf"), float("nan")
ARRAYS = {
    "normal": generator.normal(size=(37, 11)).astype("float32"),
    "half": generator.normal(size=100).astype("float16"),
    "double": generator.normal(size=(3, 4, 5)),
    "huge": np.full(1000, 1e30, "float32"),
    "zeros": np.zeros((4, 4), "float32"),
    "some_zeros": np.array([0.0, -0.0, 1.0, -2.0], "float32"),
    "empty": np.zeros((0, 3), "float32"),
    "scalar": np.array(3.5, "float32"),
    "integers": generator.integers(-50, 50, 200),
    "booleans": np.array([True, False, True]),
    "far_from_zero": generator.normal(size=(50, 7)).astype("float32") + np.float32(1e4),
    "begins_with_an_outlier": np.concatenate([[1e8], generator.normal(size=1000)]).astype("float32"),
    "complex": np.array([3 + 4j, 1j], "complex64"),
    "with_nan": np.array([1.0, NAN, -3.0], "float32"),
    "with_infinity": np.array([1.0, INF, -INF], "float32"),
    "only_nan": np.array([NAN, NAN], "float32"),
    "only_infinite": np.array([-INF, -INF], "float32"),
}
STATISTICS = tuple(sorted(DEVICE_STATISTICS))
PRIMARIES = primaries_of(STATISTICS)


def is_close(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def differences(name: str, how: str, numbers: np.ndarray) -> list[str]:
    values = dict(zip(STATISTICS, derive(STATISTICS, PRIMARIES, numbers[None]), strict=True))
    truth = {statistic: compute(statistic, ARRAYS[name]) for statistic in STATISTICS}
    return [
        f"{name}, {how}: {statistic} is {values[statistic]}, not {truth[statistic]}"
        for statistic in STATISTICS
        if not is_close(values[statistic], truth[statistic])
    ]


def alone(array: jax.Array) -> jax.Array:
    return summarize([array], PRIMARIES)[0]


def scanned(array: jax.Array) -> jax.Array:
    """Summarize within a loop, as the replay of a training in ``lax.scan`` does."""
    return jax.lax.scan(lambda _, value: (None, alone(value)), None, array[None])[1][0]


def among_others(array: jax.Array) -> jax.Array:
    """Summarize together with arrays of the same shape."""
    return summarize([jax.numpy.ones_like(array), array, jax.numpy.zeros_like(array)], PRIMARIES)[1]


found = []
for name, array in ARRAYS.items():
    with jax.enable_x64(array.dtype.itemsize >= 8):
        value = jax.numpy.asarray(array)
        for function in (alone, scanned, among_others):
            found += differences(name, function.__name__, np.asarray(jax.jit(function)(value)))
print(json.dumps(found))
