"""Overhead in other frameworks than PyTorch: alternately bare and with Leadline.

XGBoost and LightGBM: a block is one whole training of 200 rounds in this process, including closing the run but not
opening it. Keras on TensorFlow (``--rows keras``): see ``keras_fit.py``; JAX (``--rows jax``): ``jax_steps.py``; MXNet
(``--rows mxnet``): ``gluon_loop.py``. Run it with an interpreter that has the frameworks: that of ``.venvs/trees``,
``.venvs/tensorflow``, ``.venvs/jax`` or ``.venvs/mxnet``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gluon_loop
import harness
import jax_steps
import keras_fit
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import StandaloneRun

ROUNDS: Final = 200
SAMPLES: Final = 200_000
FEW_SAMPLES: Final = 40_000
"""Makes rounds so short that one-time costs and interpreter overhead are visible."""
SHAP_SAMPLES: Final = 4_000
QUICK_SAMPLES: Final = 4_000
FEATURES: Final = 30
CAPTURED_ROUNDS: Final = len({*range(0, ROUNDS, 5), ROUNDS - 1})
LIMIT: Final = Limit(1.03)


@dataclass(frozen=True, slots=True)
class Case:
    """A training and its capture plan."""

    key: str
    name: str
    make: Callable[[int], Callable[[], object]]
    """Generates this number of samples; returns the training function."""
    importance_types: int
    """Number of kinds of feature importance."""
    samples: int = SAMPLES
    capture: tuple[str, ...] = ()
    limit: Limit | None = LIMIT
    is_bare: bool = False


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(count, FEATURES)).astype(np.float32)
    return samples, (samples[:, 0] + samples[:, 1] ** 2 + generator.normal(size=count) > 1).astype(int)


def xgboost_training(count: int) -> Callable[[], object]:
    import xgboost

    samples, labels = data(count)
    split = count * 3 // 4
    parameters = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 6}

    def train() -> object:
        sets = [xgboost.DMatrix(samples[part], labels[part]) for part in (slice(0, split), slice(split, None))]
        evals = [(sets[0], "train"), (sets[1], "validation")]
        return xgboost.train(parameters, sets[0], ROUNDS, evals=evals, verbose_eval=False)

    return train


def lightgbm_training(count: int) -> Callable[[], object]:
    import lightgbm

    samples, labels = data(count)
    split = count * 3 // 4
    parameters = {"objective": "binary", "metric": ["binary_logloss", "auc"], "num_leaves": 63, "verbosity": -1}

    def train() -> object:
        train_set = lightgbm.Dataset(samples[:split], labels[:split], free_raw_data=False)
        validation_set = lightgbm.Dataset(samples[split:], labels[split:], reference=train_set)
        sets = [train_set, validation_set]
        return lightgbm.train(parameters, train_set, ROUNDS, valid_sets=sets, valid_names=["train", "validation"])

    return train


SHAP: Final = ("average_shap:every=50",)
CASES: Final = (
    Case("noise", "XGBoost, bare against itself", xgboost_training, 5, limit=None, is_bare=True),
    Case("xgboost", "XGBoost, preset standard", xgboost_training, 5),
    Case("xgboost-few", "XGBoost, few samples", xgboost_training, 5, FEW_SAMPLES),
    Case("xgboost-shap", "XGBoost, average_shap every 50", xgboost_training, 5, SHAP_SAMPLES, SHAP, limit=None),
    Case("lightgbm", "LightGBM, preset standard", lightgbm_training, 2),
    Case("lightgbm-few", "LightGBM, few samples", lightgbm_training, 2, FEW_SAMPLES),
    Case("lightgbm-shap", "LightGBM, average_shap every 50", lightgbm_training, 2, SHAP_SAMPLES, SHAP, limit=None),
)


class Blocks:
    """Trainings without and with Leadline, and a count of the values on disk afterwards."""

    def __init__(self, case: Case, samples: int) -> None:
        self._case, self._train = case, case.make(samples)
        self.found = self.expected = 0
        self.overhead_shares: list[float] = []

    def bare(self) -> float:
        return harness.elapsed_seconds(self._train)

    def recorded(self) -> float:
        if self._case.is_bare:
            return self.bare()
        folder = tempfile.mkdtemp(prefix="leadline-frameworks-")
        standalone = StandaloneRun(out=folder, name="run", preset="standard", capture=self._case.capture, budget="off")
        session = standalone.session
        assert session is not None
        began = time.perf_counter()
        self._train()
        standalone.close()
        seconds = time.perf_counter() - began
        self.overhead_shares.append(session.recorder.cost.own_ns / 1e9 / seconds)
        self._count(standalone.run)
        shutil.rmtree(folder)
        return seconds

    def _count(self, path: str) -> None:
        run = leadline.open_run(path)
        values: dict[str, tuple[int, int]] = {
            "losses": (2, ROUNDS),
            "metrics": (2, ROUNDS),
            "labels": (1, CAPTURED_ROUNDS),
            "predictions": (1, CAPTURED_ROUNDS),
            "feature_importance": (self._case.importance_types * FEATURES, CAPTURED_ROUNDS),
            "average_shap": ((FEATURES + 1, 5) if self._case.capture else (0, 0)),
        }
        for collection, (names, steps) in values.items():
            self.expected += names * steps
            self.found += sum(len(run.tensor(name).steps()) for name in run.tensor_names(collection=collection))


def measure(case: Case, rounds: int, samples: int) -> Row:
    blocks = Blocks(case, samples)

    def report_pair(index: int, bare: float, recorded: float) -> None:
        harness.progress(f"  {case.key} {index + 1}/{rounds}: {bare:.2f} s bare, {recorded:.2f} s with Leadline")

    measured = harness.pairs(blocks.bare, blocks.recorded, count=rounds, on_pair=report_pair)
    ratios = [recorded / bare for bare, recorded in measured]
    shares = blocks.overhead_shares
    overhead = f"overhead {100 * float(np.median(shares)):.1f} %" if shares else ""
    bare = float(np.median([seconds for seconds, _ in measured]))
    return Row(
        case.name,
        "x",
        harness.spread(ratios),
        case.limit,
        None if case.is_bare else blocks.expected,
        None if case.is_bare else blocks.found,
        f"{1000 * bare / ROUNDS:.1f} ms per round bare; {overhead}".rstrip("; "),
        tuple(ratios),
    )


def main() -> int:
    parser = harness.arguments(__doc__, rounds=14, quick_rounds=2)
    parser.add_argument("--rows", default=",".join(case.key for case in CASES), help="keys of rows, comma-separated")
    options = parser.parse_args()
    os.environ.pop("LEADLINE_RUN", None)
    started, rows = harness.machine(), []
    cases: dict[str, Any] = {case.key: case for case in CASES}
    keras_cases = {case.key: case for case in keras_fit.CASES}
    jax_cases = {case.key: case for case in jax_steps.CASES}
    gluon_cases = {case.key: case for case in gluon_loop.CASES}
    groups = {"keras": [*keras_cases, "keras-idle"], "jax": [*jax_cases, "jax-idle"], "mxnet": list(gluon_cases)}
    keys = [key for row in options.rows.split(",") for key in groups.get(row, [row])]
    training = keras_fit.Training() if keras_cases.keys() & set(keys) else None
    of_jax = jax_steps.Training() if jax_cases.keys() & set(keys) else None
    idle = {"keras-idle": keras_fit.measure_idle, "jax-idle": jax_steps.measure_idle}
    for key in keys:
        if key in idle:
            rows.append(idle[key]())
            continue
        if key in jax_cases and of_jax is not None:
            rows.append(jax_steps.measure(jax_cases[key], harness.rounds_of(options), of_jax))
            continue
        if key in gluon_cases:
            rows.append(gluon_loop.measure(gluon_cases[key], harness.rounds_of(options)))
            continue
        if key in keras_cases and training is not None:
            rows.append(keras_fit.measure(keras_cases[key], harness.rounds_of(options), training))
            continue
        if key not in cases:
            parser.error(f"no row named {key!r}; known: {', '.join(cases)}")
        samples = QUICK_SAMPLES if options.quick else cases[key].samples
        rows.append(measure(cases[key], harness.rounds_of(options), samples))
    return harness.report("frameworks", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
