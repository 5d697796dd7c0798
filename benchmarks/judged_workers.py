"""The synthetic training of many workers of the judge benchmark: scalars at every step, statistics every 50 steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leadline.judge.evaluator import Evaluator
from leadline.judge.rule_plan import default_rules, resolve_rules
from leadline.records.series import TensorInfo
from leadline.testing.runs import START_NS, Capture, RunWriter

WORKERS = 64
EVERY = 50
"""The interval of all statistics, as in the preset standard."""
_LAYERS = 10
STEP_SECONDS = 0.06
FLUSH_SECONDS = 0.25
LOOK_SECONDS = 1.0
"""How often the judge looks at a run of so many workers: after a pause of nine times its evaluation, at most 1 s."""
_SCALARS = {
    "CrossEntropyLoss_output_0": "losses",
    "AdamW/lr": "hyperparameters",
    "AdamW/gradient_norm": "gradient_norms",
}
_INFOS = {name: TensorInfo(name, (collection,), (), "float64") for name, collection in _SCALARS.items()} | {
    name: TensorInfo(name, (collection,), (64, 64))
    for index in range(_LAYERS)
    for name, collection in (
        (f"layers.{index}.weight", "weights"),
        (f"gradient/layers.{index}.weight", "gradients"),
    )
}
_STATISTICS = {"mean": 0.01, "std": 0.05, "abs_mean": 0.02, "l2": 4.0, "max": 0.5, "min": -0.5, "nonfinite_count": 0.0}


def write(path: Path, steps: int, *, workers: int = WORKERS) -> Path:
    """Write a training that has ended, with the default rules."""
    writer = RunWriter(path, rules=default_rules(), batch_rows=5, started_ns=START_NS)
    for part in captures(steps, workers):
        writer.write(part)
    writer.end()
    return path


def captures(steps: int, workers: int) -> Iterator[Capture]:
    """Yield the rows of all workers, step by step: a loss that decreases with noise, and healthy statistics."""
    names = [f"rank{rank}-{1000 + rank}" for rank in range(workers)]
    for step in range(steps):
        noise = np.random.default_rng(step).normal(1.0, 0.02, (workers, len(_INFOS)))
        for rank, name in enumerate(names):
            values = {
                "CrossEntropyLoss_output_0": {"value": (0.5 + 2.0 / (1.0 + step / 100)) * noise[rank, 0]},
                "AdamW/lr": {"value": 1e-3},
                "AdamW/gradient_norm": {"value": noise[rank, 1]},
            }
            if step % EVERY == 0:
                values |= {
                    tensor: {statistic: level * noise[rank, index] for statistic, level in _STATISTICS.items()}
                    for index, tensor in enumerate(_INFOS)
                    if tensor not in _SCALARS
                }
            time_ns = START_NS + round(step * STEP_SECONDS * 1e9) + rank * 1_000
            yield Capture(step, values, worker=name, time_ns=time_ns, infos=_INFOS)


@dataclass(frozen=True, slots=True)
class JudgedWorkers:
    """An evaluation of a run of many workers."""

    milliseconds: float
    """Processor time for a step of all workers."""
    steps: int
    """The number of steps that were judged."""


def judge_stored(run: Path, steps: int) -> JudgedWorkers:
    """Judge a run that has ended, in this process."""
    judging = _evaluator(run, is_over=True)
    began = time.process_time()
    judged_step = judging.advance(is_over=True).judged_step
    return JudgedWorkers(1e3 * (time.process_time() - began) / steps, judged_step + 1)


def judge_live(path: Path, steps: int) -> JudgedWorkers:
    """Judge a run while all workers write it, in this process."""
    writer = RunWriter(path, rules=default_rules(), batch_rows=1 << 30, started_ns=START_NS)
    judging, used, judged_step, look_at, flush_at = _evaluator(path), 0.0, -1, LOOK_SECONDS, 0.0
    for part in captures(steps, WORKERS):
        now = part.step * STEP_SECONDS
        if now >= flush_at:
            writer.flush()
            flush_at += FLUSH_SECONDS
        if now >= look_at:
            began = time.process_time()
            judged_step = judging.advance().judged_step
            used, look_at = used + time.process_time() - began, look_at + LOOK_SECONDS
        writer.write(part)
    writer.end()
    began = time.process_time()
    judged_step = judging.advance(is_over=True).judged_step
    return JudgedWorkers(1e3 * (used + time.process_time() - began) / steps, judged_step + 1)


def _evaluator(run: Path, *, is_over: bool = False) -> Evaluator:
    rules = [(spec.alias, rule) for spec, rule in resolve_rules(default_rules())]
    return Evaluator(str(run), rules, started_ns=START_NS, is_over=is_over)
