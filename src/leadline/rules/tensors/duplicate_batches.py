"""The rule duplicate_batches."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Final

from leadline.records.formatting import counted, listed
from leadline.records.names import CHECKS, POSSIBLE_CAUSES
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    Severity,
    TensorNeed,
    TensorVector,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired, suspected
from leadline.rules.tensors.model_batches import ALL_INPUTS, inputs_by_model

_REPLICAS: Final = "/replicas"
_FIRST_STEPS: Final = 6
_EVERY: Final = 50
_ALONE: Final = 1.0
_MIN_ELEMENTS: Final = 8
"""Smaller inputs may be equal by chance, or say the same on all workers, such as the number of the step."""
_ADVICE: Final = Advice(
    "a DistributedSampler, or another seed of the data on each rank; usually every rank reads the whole data set in "
    "the same order"
)


@dataclass(slots=True)
class _Batches:
    """What is known of the batches of a model."""

    equal: int = 0
    """The captured steps in a row at which all workers had the same batch."""
    kinds: set[int] = field(default_factory=set)
    """Up to two different ones of these batches."""
    first: dict[str, dict[int, int]] = field(default_factory=dict)
    """By worker the batches of the first steps, by step."""


@dataclass(slots=True)
class _Known:
    replicas: dict[tuple[str, str], float] = field(default_factory=dict)
    """What each worker reports of each of its models: the number of replicas, 1 if it is sharded, 0 if not known."""
    batches: dict[str, _Batches] = field(default_factory=dict)
    """By the first input of a model."""


class DuplicateBatches(Rule, frozen=True, kw_only=True):
    """Fires when the ranks of a data-parallel training are given the same batches.

    Why it matters:
        The mean of equal gradients is the gradient of one rank: all other ranks compute the same for nothing, and the
        batch is as small as that of one.
    How it decides:
        Compares fingerprints of the inputs of a model (64 bits for each sample, of 256 of its elements) at the first 6
        steps and every 50th: batches are equal if all inputs are, sample by sample. Fires once the batches of all
        workers have been equal at ``patience`` captured steps in a row, and were not the same at all of them. Workers
        are those of models under ``DistributedDataParallel``; others may be given the same on purpose (tensor or
        sequence parallel). A model all of whose inputs have fewer than 8 elements, or samples that are all equal, is
        not judged. At the end of a run it remarks that each batch of the first 6 steps came several times in a row:
        workers of a loader that read the same data.
    Not a number:
        Every NaN is equal to every other one.
    Blind spots:
        Ranks that have the same samples in another order, or at another step. Sharded models (FSDP), whose ranks may be
        parallel in another way. Several updates on one batch on purpose get the remark.
    Args:
        patience: Captured steps in a row, >= 1.
    Source:
        Ours; ``torch.utils.data.distributed.DistributedSampler``.
    """

    severity: ClassVar[Severity] = "advice"

    patience: PositiveInt = 3

    def needs(self) -> Needs:
        inputs = TensorNeed("inputs", regex=ALL_INPUTS, statistics=("fingerprints",), modes=("train",))
        replicas = TensorNeed(
            "checks", regex=f"{_REPLICAS}$", statistics=("value",), modes=("train",), every=10, is_optional=True
        )
        steps = TensorNeed("losses", statistics=("value",), modes=("train",), end=_FIRST_STEPS, is_optional=True)
        return Needs((replace(inputs, end=_FIRST_STEPS), replace(inputs, every=_EVERY), replicas, steps))

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        for reading in window.readings("value"):
            if CHECKS in reading.collections:
                known.replicas[reading.worker, reading.tensor] = reading.value
        for name, batches in _batches(window).items():
            of_input = known.batches.setdefault(name, _Batches())
            if window.step < _FIRST_STEPS:
                for worker, batch in batches.items():
                    of_input.first.setdefault(worker, {})[window.step] = batch
            if len(batches) > 1 and len(set(batches.values())) == 1:
                of_input.equal += 1
                of_input.kinds.update(list(batches.values())[: 2 - len(of_input.kinds)])
            else:
                of_input.equal = 0
                of_input.kinds.clear()
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Known = window.memory
        batches = _batches(window)
        if not known.replicas:
            remarks = [remark for name in batches if (remark := _remark(known.batches[name]))]
            product = {"remarks": remarks[:1], POSSIBLE_CAUSES: remarks[:1]}
            return Clear(product) if remarks else NotApplicable("one process")
        if min(known.replicas.values()) <= _ALONE:
            return NotApplicable("the processes are not known to be parallel in their data")
        shared = {name: of_workers for name, of_workers in batches.items() if len(of_workers) > 1}
        if not shared:
            return Undecided("no input of the model was captured on two processes at this step")
        worst = max(shared, key=lambda name: known.batches[name].equal if len(known.batches[name].kinds) > 1 else 0)
        found = known.batches[worst]
        if len(found.kinds) < 2:
            return Clear()
        if found.equal < self.patience:
            return suspected(found.equal, self.patience, "captured steps")
        return self._fired(worst, found, sorted(shared[worst]))

    def _fired(self, name: str, found: _Batches, workers: list[str]) -> Fired:
        return fired(
            f"{listed(workers)} were given the same batches, to the bit, at {counted(found.equal, 'captured step')} in "
            "a row",
            name,
            advice=_ADVICE,
            evidence={"equal_steps": found.equal, "workers": len(workers), "patience": self.patience},
            worker=workers[-1],
        )


def _batches(window: Window) -> dict[str, dict[str, int]]:
    """Return a hash of the batch of each worker, over all inputs of a model, by the name of the first one."""
    batches: dict[str, dict[str, int]] = {}
    for (worker, name), inputs in inputs_by_model(window.vectors("fingerprints")).items():
        if any(map(_can_be_compared, inputs)):
            batch = tuple(tuple(vector.values.ravel().tolist()) for vector in inputs)
            batches.setdefault(name, {})[worker] = hash(batch)
    return batches


def _can_be_compared(vector: TensorVector) -> bool:
    samples = {tuple(sample) for sample in vector.values.tolist()}
    return math.prod(vector.shape) >= _MIN_ELEMENTS and (len(samples) > 1 or len(vector.values) == 1)


def _remark(batches: _Batches) -> str:
    """Return the remark on batches that came several times in a row; empty: none."""
    for of_steps in batches.first.values():
        order = [of_steps[step] for step in sorted(of_steps)]
        counts = Counter(order)
        runs = 1 + sum(before != after for before, after in pairwise(order))
        if len(order) == _FIRST_STEPS and runs == len(counts) > 1 and min(counts.values()) > 1:
            return (
                f"each batch of the first {_FIRST_STEPS} steps came several times in a row: unless several updates on "
                "one batch are meant, the workers of the data loader read the same data (an IterableDataset has to "
                "ask get_worker_info which part is its own)"
            )
    return ""
