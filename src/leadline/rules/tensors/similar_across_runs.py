"""The rule similar_across_runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_COMPARED = ("value", "mean", "l2", "min", "max")
_EXACT = ("value", "checksum")
_Tolerance = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One statistic of one tensor in two runs."""

    run: str
    here: TensorReading
    there: TensorReading
    is_alike: bool

    @property
    def distance(self) -> float:
        """How far they are apart, relative to the other run's; NaN and infinity are farthest."""
        gap = abs(self.here.value - self.there.value)
        return gap / (abs(self.there.value) or 1.0) if math.isfinite(gap) else math.inf


class SimilarAcrossRuns(Rule, frozen=True, kw_only=True):
    """Fires when a tensor differs from that of another run at the same step (or, if asked, when it does not).

    Why it matters:
        A run that should repeat another (same seed, a refactoring, another machine) and does not, or two that
        should differ and are the same to the digit, say that something is not what it is thought to be.
    How it decides:
        At each step at which both runs saved a tensor, its ``mean``, ``l2``, ``min`` and ``max`` (of a single number
        the number itself) are alike when ``abs(here - there) <= atol + rtol * abs(there)``. The tensor differs
        where one of them is not. With both tolerances 0 the bits are compared, by ``checksum``. Workers are
        compared by rank.
    Not a number:
        NaN is like NaN, and an infinity like itself.
    Blind spots:
        Elements in another order have the same statistics. The other run must have saved the same statistics at the
        same steps: undecided where it did not. While the other run grows, a live judge waits for it.
    Args:
        other_trials: The runs to compare with: names of runs beside this one, or paths.
        collection_names: Collections whose tensors are compared; without these and ``tensor_regex``: everything that
            is captured.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are compared as well.
        rtol: Relative tolerance, >= 0, as ``numpy.allclose`` has it.
        atol: Absolute tolerance, >= 0, in the statistic's unit.
        fires_on: ``different`` or ``similar``.
    Source:
        SageMaker developer guide, "SimilarAcrossRuns"; tolerances and ``fires_on`` are ours.
    """

    other_trials: tuple[str, ...]
    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    rtol: _Tolerance = 1e-5
    atol: _Tolerance = 1e-8
    fires_on: Literal["different", "similar"] = "different"

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex)

    @property
    def _statistics(self) -> tuple[str, ...]:
        return _EXACT if self.rtol == self.atol == 0.0 else _COMPARED

    def needs(self) -> Needs:
        collections = self.collection_names or (() if self.tensor_regex else ("all",))
        return Needs(select(collections, self.tensor_regex, self._statistics), runs=self.other_trials)

    def evaluate(self, window: Window) -> Verdict:
        compared: dict[tuple[str, str, str], list[_Comparison]] = {}
        for each in self._comparisons(window):
            compared.setdefault((each.run, each.here.worker, each.here.tensor), []).append(each)
        if not compared:
            others = ", ".join(self.other_trials)
            return Undecided(f"nothing that was saved at this step was saved at the same step of {others}")
        different = [worst for each in compared.values() if (worst := _difference(each)) is not None]
        alike = [each[0] for each in compared.values() if _difference(each) is None]
        if self.fires_on == "different" and different:
            return self._differs(different)
        if self.fires_on == "similar" and alike:
            return self._is_same(alike)
        return Undecided("part of what was to be captured at this step was lost") if window.is_thinned else Clear()

    def _comparisons(self, window: Window) -> Iterator[_Comparison]:
        for run, other in window.others.items():
            for statistic in self._statistics:
                known = {(_rank(each.worker), each.tensor): each for each in other.readings(statistic)}
                for here in window.readings(statistic):
                    there = known.get((_rank(here.worker), here.tensor))
                    if there is not None:
                        yield _Comparison(run, here, there, self._is_alike(here.value, there.value))

    def _is_alike(self, here: float, there: float) -> bool:
        if not (math.isfinite(here) and math.isfinite(there)):
            return here == there or (math.isnan(here) and math.isnan(there))
        return abs(here - there) <= self.atol + self.rtol * abs(there)

    def _differs(self, different: list[_Comparison]) -> Fired:
        worst = max(different, key=lambda each: each.distance)
        name = worst.here.statistic
        tensors = tuple(dict.fromkeys((worst.here.tensor, *(each.here.tensor for each in different))))
        message = (
            f"{worst.here.tensor}: its bits are not those of {worst.run}"
            if name == "checksum"
            else f"{worst.here.tensor}: {_spoken(name)}{worst.here.value:.6g}, in {worst.run} {worst.there.value:.6g}"
        )
        return Fired(
            message + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={
                "run": worst.run,
                "statistic": name,
                "here": worst.here.value,
                "there": worst.there.value,
                "rtol": self.rtol,
                "atol": self.atol,
                "tensors": len(tensors),
            },
            suggestion="the first step and tensor that differ, with leadline judge at a smaller rtol, or the same "
            "seed, data order and deterministic algorithms in both; usually a seed, a version or the data differ",
            worker=worst.here.worker,
        )

    def _is_same(self, alike: list[_Comparison]) -> Fired:
        first = alike[0]
        tensors = tuple(dict.fromkeys(each.here.tensor for each in alike))
        return Fired(
            f"{first.here.tensor} is the same as in {first.run}" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={
                "run": first.run,
                "statistic": first.here.statistic,
                "here": first.here.value,
                "there": first.there.value,
                "tensors": len(tensors),
            },
            suggestion="another seed, or a look whether the change that tells the runs apart reaches the model; "
            "usually both were started from the same configuration or checkpoint",
            worker=first.here.worker,
        )


def _difference(comparisons: list[_Comparison]) -> _Comparison | None:
    """The statistic in which a tensor differs most; None where it does in none."""
    return max((each for each in comparisons if not each.is_alike), key=lambda each: each.distance, default=None)


def _rank(worker: str) -> str:
    """What a worker is called in every run of the same shape: its rank, without its process's number."""
    return worker.partition("-")[0]


def _spoken(statistic: str) -> str:
    return "" if statistic == "value" else f"{statistic} "
