"""The rule shared_samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from leadline.records.formatting import share as percent
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorVector,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.messages import fired

_FIRST_STEPS: Final = 6
_EVERY: Final = 50
_EVAL_STEPS: Final = 200
_KEPT: Final = 1 << 14
"""Training samples that are remembered."""
_FEW: Final = 10
"""Fewer shared samples may be copies that the data have anyway."""
_CHANCE: Final = 2.0
"""Not more than so many times the number that is expected by chance is chance."""
_RULE_OF_THREE: Final = 3
"""Where no pair of a batch is equal, up to 3 of so many pairs could be, at 95 %."""
_NEARLY_ALL: Final = 0.9
"""The share of the training samples from which on the training set itself is evaluated, on purpose or not."""
_OTHER_SET: Final = 0.25
"""The share of the batches, before or after all others, that is another set without training samples."""
_REMARKED: Final = 0.2
_SUGGESTION: Final = Advice(
    "a split before anything is repeated, augmented or shuffled into windows, and a training loader of what is left "
    "after it; usually the training was given the whole data set, or copies of a sample are on both sides of the split"
)
_FIRST_INPUT: Final = "_input_0"
_Key = tuple[str, str]


@dataclass(slots=True)
class _Samples:
    """The samples that a model was given."""

    are_numbers: bool = False
    """Whether each is a single number."""
    trained: set[int] = field(default_factory=set)
    batches: set[int] = field(default_factory=set)
    """The training batches, by a hash of their samples in order."""
    steps: int = 0
    pairs: int = 0
    """The pairs of samples within batches."""
    equal: int = 0
    """Those that are equal."""
    evaluated: int = 0
    """The samples of the current evaluation."""
    shared: list[int] = field(default_factory=list)
    """The number of training samples in each of its batches."""
    found: set[int] = field(default_factory=set)
    """Those training samples."""
    is_over: bool = False
    """Whether the training has gone on after it."""

    def train(self, samples: list[int]) -> None:
        self._count_equal(samples)
        self.steps += 1
        if len(self.trained) < _KEPT:
            self.batches.add(hash(tuple(samples)))
            self.trained.update(samples)

    def evaluate(self, samples: list[int]) -> None:
        if self.is_over:
            self.evaluated, self.shared, self.is_over = 0, [], False
            self.found.clear()
        self._count_equal(samples)
        both = [sample for sample in samples if sample in self.trained]
        self.evaluated += len(samples)
        self.shared.append(len(both))
        self.found.update(both)

    def _count_equal(self, samples: list[int]) -> None:
        self.pairs += len(samples) * (len(samples) - 1) // 2
        self.equal += sum(count * (count - 1) // 2 for count in Counter(samples).values())

    @property
    def count(self) -> int:
        """The number of training samples in the evaluation."""
        return sum(self.shared)

    def is_chance(self) -> bool:
        """Return whether so many samples are equal by chance, judged by the equal pairs within batches."""
        rate = (self.equal + _RULE_OF_THREE) / max(self.pairs, 1)
        return self.count <= _CHANCE * rate * self.evaluated * len(self.trained)

    def has_other_set(self) -> bool:
        """Return whether a part of the evaluation, at its beginning or end, has no training sample at all."""
        places = [at for at, count in enumerate(self.shared) if count]
        return 1 - (places[-1] - places[0] + 1) / len(self.shared) >= _OTHER_SET


class SharedSamples(Rule, frozen=True, kw_only=True):
    """Fires when validation is given samples that the model was trained on.

    Why it matters:
        A model may know such samples by heart: the validation says nothing of new data, and neither overfitting nor a
        mistake in the data shows.
    How it decides:
        Compares fingerprints of the inputs of the model (64 bits for each sample and input, of 256 of its elements; of
        inputs with as many samples as the first, all have to be equal): of the training batches of the first 6 steps
        and every 50th, up to 16,384 samples, with those of the first 200 eval steps whose loss was computed. Fires once
        the training goes on after an evaluation in which at least 10 samples are equal to the bit to training samples,
        and more than twice as many as the equal pairs within batches would lead one to expect (3 of all pairs, if there
        are none). Where nearly all training samples (90 %) are evaluated, the training set itself is, which may be on
        purpose: it remarks on that at the end of the run, and on a fifth of the samples being shared where samples
        repeat within batches, too. Clear if the first or last quarter of the batches has no training sample: the
        training set was evaluated as well as another one. Does not apply where the training has a single batch, such as
        a graph. Of a first input with one number for each sample, some of which repeat within batches, as those of
        users do, nothing is said.
    Not a number:
        Every NaN is equal to every other one.
    Blind spots:
        Only training samples of captured steps are known, so that shared samples are counted at least. Augmented
        copies, other crops and other orders of words are not equal. Evaluations after the last step of the training are
        not compared, nor those of which no loss was computed. Samples that differ only between the elements that are
        compared are taken for equal. An input that the model is given in one of the two modes only, such as labels,
        makes all samples differ.
    Source:
        Ours; Kaufman et al., "Leakage in data mining" (2012).
    """

    explains: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> Needs:
        inputs = TensorNeed("inputs", regex=r"_input_\d+$", statistics=("fingerprints",), modes=("train",))
        return Needs(
            (
                replace(inputs, end=_FIRST_STEPS),
                replace(inputs, every=_EVERY),
                replace(inputs, modes=("eval",), end=_EVAL_STEPS, is_optional=True),
                TensorNeed("losses", statistics=("value",), modes=("eval",), end=_EVAL_STEPS, is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Samples]:
        known: dict[_Key, _Samples] = memory or {}
        evaluated = {reading.worker for reading in window.readings("value") if reading.mode == "eval"}
        vectors = {(vector.worker, vector.tensor): vector for vector in window.vectors("fingerprints")}
        for (worker, name), vector in vectors.items():
            if not name.endswith(_FIRST_INPUT):
                continue
            samples = known.setdefault((worker, name), _Samples())
            samples.are_numbers = bool(vector.shape) and math.prod(vector.shape[1:]) == 1
            numbers = _numbers(vector) if samples.are_numbers else _samples(vector, vectors)
            if vector.mode == "eval" and worker in evaluated:
                samples.evaluate(numbers)
            elif vector.mode == "train":
                samples.is_over = True
                samples.train(numbers)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: dict[_Key, _Samples] = window.memory
        ended = {key: samples for key, samples in known.items() if samples.evaluated and samples.is_over}
        if not ended:
            return Undecided("no evaluation with a loss has ended whose samples were captured")
        if all(samples.steps > 1 and len(samples.batches) == 1 for samples in ended.values()):
            return NotApplicable("the training has a single batch, in which validation may be a part")
        remarks = []
        for key, samples in ended.items():
            if samples.count < _FEW or len(samples.batches) == 1 or samples.has_other_set():
                continue
            if samples.are_numbers and samples.equal:
                continue  # such as those of users, which others share
            share = samples.count / samples.evaluated
            if len(samples.found) >= _NEARLY_ALL * len(samples.trained) or samples.is_chance():
                remarks += [_remark(samples)] if share >= _REMARKED else []
            else:
                return _fired(key, samples, share)
        return Clear({"remarks": remarks[:1]})


def _numbers(vector: TensorVector) -> list[int]:
    """Return the fingerprints of an input, one for each sample."""
    return [(int(upper) << 32) | int(lower) for upper, lower in vector.values.tolist()]


def _samples(first: TensorVector, vectors: Mapping[_Key, TensorVector]) -> list[int]:
    """Return a number for each sample of a model, from its first input and the others with as many samples."""
    model = first.tensor.removesuffix(_FIRST_INPUT)
    parts = [
        _numbers(vector)
        for (worker, name), vector in sorted(vectors.items())
        if worker == first.worker
        and name.rpartition("_input_")[0] == model
        and vector.values.shape == first.values.shape
    ]
    return [hash(sample) for sample in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]


def _fired(key: _Key, samples: _Samples, share: float) -> Fired:
    found = fired(
        f"at least {percent(share)} of the samples that were evaluated are training samples: {samples.count:,} of "
        f"{samples.evaluated:,} are equal to the bit to one of {len(samples.trained):,} of those",
        key[1],
        advice=_SUGGESTION,
        evidence={
            "shared": samples.count,
            "evaluated": samples.evaluated,
            "training_samples": len(samples.trained),
            "equal_pairs": samples.equal,
            "pairs": samples.pairs,
        },
        worker=key[0],
    )
    return replace(found, product={"remarks": []})


def _remark(samples: _Samples) -> str:
    return (
        f"{samples.count:,} of {samples.evaluated:,} evaluated samples are equal to the bit to training samples: "
        "unless the training set is evaluated on purpose, validation says nothing of new data"
    )
