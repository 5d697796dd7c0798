"""The first step and tensor at which two runs differ: in what the model is given, computes, or becomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from leadline.errors import NotCapturedError
from leadline.reader import tables
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.formatting import significant
from leadline.records.series import TensorInfo, merged_infos

_STATISTICS: Final = ("value", "l2", "abs_mean", "min", "max")
_TOLERANCE: Final = 1e-6
"""The relative difference that another processor may make, in single precision."""
_UPDATE: Final = "the updates since the step before"
_BEGIN: Final = "what the training begins with: the seed, or the file that weights are loaded from"
_STAGES: Final = (
    ("weights", _UPDATE),
    ("biases", _UPDATE),
    ("inputs", "what the model is given: the data, their order, or how they are tokenized or transformed"),
    ("labels", "the labels"),
    ("layers", "the forward pass: random numbers as those of dropout, weights that are not captured, or its code"),
    ("losses", "the loss"),
    ("gradients", "the backward pass, or how gradients are clipped"),
    ("gradient_norms", "the backward pass, or how gradients are clipped"),
    ("hyperparameters", "the settings of the optimizer"),
)
"""Collections in the order in which a step has them (weights are those before its update), with what differs if nothing
before them does."""


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs differ first.

    Attributes:
        step: The train step; of the steps that both have captured.
        equal_steps: The number of captured train steps before it, at which nothing differs.
        tensor: The first tensor of the step that differs.
        statistic: Its statistic that differs, ``shape``, or ``fingerprints``.
        values: The statistic in both runs, as text.
        cause: What differs, by the place of the tensor in a step.
    """

    step: int
    equal_steps: int
    tensor: str
    statistic: str
    values: tuple[str, str]
    cause: str

    def text(self) -> str:
        """Return it as a sentence without a period."""
        label = "" if self.statistic == "value" else f" {self.statistic}"
        pair = " and ".join(self.values)
        shown = f"{self.tensor}{label} is {pair}" if pair else f"{self.tensor} has other values"
        before = f"equal at {self.equal_steps:,} captured steps before; " if self.equal_steps else ""
        return f"step {self.step:,}: {before}{shown}; what differs: {self.cause}"


_Values = dict[str, dict[int, float]]
"""By statistic, the values at train steps."""


def first_difference(one: Run, other: Run) -> FirstDifference | None:
    """Return where the first workers of two runs differ first; None: nowhere, or they have no tensor in common."""
    runs = _Captured(one), _Captured(other)
    found: tuple[int, int] | None = None
    first: FirstDifference | None = None
    steps: set[int] = set()
    names = [name for name in runs[0].infos if name in runs[1].infos]
    for place, (name, cause) in enumerate(_in_order(names, runs[0].infos)):
        pair = runs[0].values(name), runs[1].values(name)
        steps |= _steps(pair[0]) & _steps(pair[1])
        differing = _difference(runs, name, pair)
        if differing is None or (found is not None and (differing[0], place) >= found):
            continue
        found, (step, statistic, values) = (differing[0], place), differing
        first = FirstDifference(step, 0, name, statistic, values, cause)
    if first is None:
        return None
    cause = _BEGIN if first.cause == _UPDATE and first.step == 0 else first.cause
    return replace(first, equal_steps=sum(step < first.step for step in steps), cause=cause)


class _Captured:
    """What the first worker of a run has captured."""

    def __init__(self, run: Run) -> None:
        self.run = run
        workers = sorted(run.workers(), key=natural_sort_key)
        self._worker = workers[0] if workers else ""
        self._streams = [stream for stream in run.archive.series.values() if stream.worker == self._worker]
        self.infos = merged_infos(info for stream in self._streams for info in stream.layout.tensors)

    def values(self, name: str) -> _Values:
        """Return the compared statistics of a tensor."""
        found: _Values = {}
        for stream in self._streams:
            for statistic, column in stream.columns_of(name).items():
                if statistic in _STATISTICS:
                    table = tables.column_table(stream.worker, stream.batches, column)
                    is_train = np.asarray(table["mode"]) == "train"
                    steps, values = (table[of].to_numpy()[is_train] for of in ("mode_step", "value"))
                    found.setdefault(statistic, {}).update(zip(steps.tolist(), values.tolist(), strict=True))
        return found

    def fingerprints(self, name: str, step: int) -> list[float] | None:
        """Return the fingerprints of the samples of a step; None: it has none."""
        try:
            found = self.run.tensor(name).statistic_array("fingerprints", step, self._worker, "train")
        except NotCapturedError:
            return None
        return [float(value) for value in found.reshape(-1)]


def _in_order(names: list[str], infos: dict[str, TensorInfo]) -> Iterator[tuple[str, str]]:
    """Yield the tensors of a step in the order in which it makes them, each with what differs if it does."""
    for stage, cause in _STAGES:
        of_stage = [name for name in names if _stage(infos[name]) == stage]
        yield from ((name, cause) for name in (reversed(of_stage) if stage == "gradients" else of_stage))


def _stage(info: TensorInfo) -> str:
    return next((stage for stage, _ in _STAGES if stage in info.collections and _is_of(stage, info)), "")


def _is_of(stage: str, info: TensorInfo) -> bool:
    """Return whether a tensor is of a stage: a loss call's output is a layer's, too, and counts as a loss."""
    return stage != "layers" or not {"losses", "labels"} & set(info.collections)


def _steps(values: _Values) -> set[int]:
    return {step for of_statistic in values.values() for step in of_statistic}


def _difference(
    runs: tuple[_Captured, _Captured], name: str, pair: tuple[_Values, _Values]
) -> tuple[int, str, tuple[str, str]] | None:
    """Return the first step at which a tensor differs, the statistic, and its values; None: it does not."""
    differing: list[tuple[int, int]] = []
    for place, statistic in enumerate(_STATISTICS):
        one, other = (of_run.get(statistic, {}) for of_run in pair)
        common = np.array(sorted(one.keys() & other.keys()), np.int64)
        here, there = (np.array([of_run[step] for step in common.tolist()]) for of_run in (one, other))
        is_equal = np.isclose(here, there, rtol=_TOLERANCE, atol=0.0, equal_nan=True)
        if not is_equal.all():
            differing.append((int(common[~is_equal][0]), place))
    info = runs[0].infos[name], runs[1].infos[name]
    first = min(differing, default=None)
    if "inputs" in info[0].collections:
        limit = first[0] if first is not None else None
        for step in sorted(_steps(pair[0]) & _steps(pair[1])):
            if limit is not None and step >= limit:
                break
            prints = [run.fingerprints(name, step) for run in runs]
            if None in prints:
                break
            if prints[0] != prints[1]:
                return step, "fingerprints", ("", "")
    if first is None:
        return None
    step, statistic = first[0], _STATISTICS[first[1]]
    if info[0].shape != info[1].shape:
        return step, "shape", (str(info[0].shape), str(info[1].shape))
    return step, statistic, (significant(pair[0][statistic][step]), significant(pair[1][statistic][step]))
