"""What watching costs a training of boosters: 200 rounds of XGBoost and LightGBM, bare and watched in turn.

A block is one whole training in this process; closing the run belongs to it, opening it does not. Run it with the
interpreter that has the frameworks: ``.venvs/trees/bin/python benchmarks/frameworks.py``.
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

import harness
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import StandaloneRun

ROUNDS: Final = 200
SAMPLES: Final = 200_000
FEW_SAMPLES: Final = 40_000
"""Rounds so short that what comes once, and the interpreter itself, show."""
SHAP_SAMPLES: Final = 4_000
QUICK_SAMPLES: Final = 4_000
FEATURES: Final = 30
DUE: Final = len({*range(0, ROUNDS, 5), ROUNDS - 1})
LIMIT: Final = Limit(1.03)


@dataclass(frozen=True, slots=True)
class Case:
    """A training, and what is captured of it."""

    key: str
    name: str
    make: Callable[[int], Callable[[], object]]
    """Makes so many samples; gives what trains."""
    kinds: int
    """Of feature importance."""
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
    held = count * 3 // 4
    parameters = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 6}

    def train() -> object:
        sets = [xgboost.DMatrix(samples[at], labels[at]) for at in (slice(0, held), slice(held, None))]
        evals = [(sets[0], "train"), (sets[1], "validation")]
        return xgboost.train(parameters, sets[0], ROUNDS, evals=evals, verbose_eval=False)

    return train


def lightgbm_training(count: int) -> Callable[[], object]:
    import lightgbm

    samples, labels = data(count)
    held = count * 3 // 4
    parameters = {"objective": "binary", "metric": ["binary_logloss", "auc"], "num_leaves": 63, "verbosity": -1}

    def train() -> object:
        trained = lightgbm.Dataset(samples[:held], labels[:held], free_raw_data=False)
        checked = lightgbm.Dataset(samples[held:], labels[held:], reference=trained)
        sets = [trained, checked]
        return lightgbm.train(parameters, trained, ROUNDS, valid_sets=sets, valid_names=["train", "validation"])

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
    """Trains bare and watched, and counts what is on disk afterwards."""

    def __init__(self, case: Case, samples: int) -> None:
        self._case, self._train = case, case.make(samples)
        self.found = self.asked = 0
        self.own: list[float] = []

    def bare(self) -> float:
        return harness.elapsed_seconds(self._train)

    def watched(self) -> float:
        if self._case.is_bare:
            return self.bare()
        folder = tempfile.mkdtemp(prefix="leadline-frameworks-")
        alone = StandaloneRun(out=folder, name="run", preset="standard", capture=self._case.capture, budget="off")
        session = alone.session
        assert session is not None
        began = time.perf_counter()
        self._train()
        alone.close()
        took = time.perf_counter() - began
        self.own.append(session.recorder.cost.own_ns / 1e9 / took)
        self._count(alone.run)
        shutil.rmtree(folder)
        return took

    def _count(self, path: str) -> None:
        run = leadline.open_run(path)
        wanted: dict[str, tuple[int, int]] = {
            "losses": (2, ROUNDS),
            "metrics": (2, ROUNDS),
            "labels": (1, DUE),
            "predictions": (1, DUE),
            "feature_importance": (self._case.kinds * FEATURES, DUE),
            "average_shap": ((FEATURES + 1, 5) if self._case.capture else (0, 0)),
        }
        for collection, (names, steps) in wanted.items():
            self.asked += names * steps
            self.found += sum(len(run.tensor(name).steps()) for name in run.tensor_names(collection=collection))


def measure(case: Case, rounds: int, samples: int) -> Row:
    blocks = Blocks(case, samples)

    def tell(index: int, bare: float, watched: float) -> None:
        harness.progress(f"  {case.key} {index + 1}/{rounds}: {bare:.2f} s bare, {watched:.2f} s watched")

    measured = harness.pairs(blocks.bare, blocks.watched, count=rounds, on_pair=tell)
    ratios = [watched / bare for bare, watched in measured]
    own = f"own code {100 * float(np.median(blocks.own)):.1f} %" if blocks.own else ""
    bare = float(np.median([each for each, _ in measured]))
    return Row(
        case.name,
        "x",
        harness.spread(ratios),
        case.limit,
        None if case.is_bare else blocks.asked,
        None if case.is_bare else blocks.found,
        f"{1000 * bare / ROUNDS:.1f} ms a round bare; {own}".rstrip("; "),
        tuple(ratios),
    )


def main() -> int:
    parser = harness.arguments(__doc__, rounds=14, quick_rounds=2)
    parser.add_argument("--rows", default=",".join(each.key for each in CASES), help="which, separated by commas")
    options = parser.parse_args()
    os.environ.pop("LEADLINE_RUN", None)
    started, rows = harness.machine(), []
    known: dict[str, Any] = {each.key: each for each in CASES}
    for key in options.rows.split(","):
        if key not in known:
            parser.error(f"no row named {key!r}; there are {', '.join(known)}")
        samples = QUICK_SAMPLES if options.quick else known[key].samples
        rows.append(measure(known[key], harness.rounds_of(options), samples))
    return harness.report("frameworks", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
