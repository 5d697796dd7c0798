"""The rule similar_across_runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from leadline.records.names import PROCESS_MEMORY
from leadline.rules import Advice, Fired, Needs, Rule, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_selection, select

_COMPARED = ("value", "mean", "l2", "min", "max")
_EXACT = ("value", "checksum")
_DIFFERENT: Final = Advice(
    "leadline judge with a smaller rtol to find the first step and tensor that differ, or the same seed, data order "
    "and deterministic algorithms in both; usually a seed, a version or the data differ"
)
_SIMILAR: Final = Advice(
    "another seed, or checking whether the intended change reaches the model; usually both were started from the same "
    "configuration or checkpoint"
)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One statistic of one tensor in two runs."""

    run: str
    here: TensorReading
    there: TensorReading
    is_alike: bool

    @property
    def distance(self) -> float:
        """The difference relative to the other run's value; infinite for NaN and infinity."""
        gap = abs(self.here.value - self.there.value)
        return gap / (abs(self.there.value) or 1.0) if math.isfinite(gap) else math.inf


class SimilarAcrossRuns(Rule, frozen=True, kw_only=True):
    """Fires when a tensor differs from that of another run at the same step (or is similar, as ``fires_on`` selects).

    Why it matters:
        A run that should reproduce another one (same seed, a refactoring, another machine) and does not, or two
        runs that should differ and are identical, show that an assumption is wrong.
    How it decides:
        At each step at which both runs saved a tensor, its ``mean``, ``l2``, ``min`` and ``max`` (the value of a
        scalar) are alike if ``abs(here - there) <= atol + rtol * abs(there)``. The tensor differs if one of them is
        not. With both tolerances 0 the bits are compared, by ``checksum``. Workers are compared by rank.
        The memory of the process is not compared.
    Not a number:
        NaN is equal to NaN, and an infinity to itself.
    Blind spots:
        Elements in another order have the same statistics. The other run must have saved the same statistics at the
        same steps: undecided if it did not. While the other run is running, a live judge waits for it.
    Args:
        other_trials: The runs to compare with: names of runs in the same folder, or paths.
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
    rtol: NonNegativeFloat = 1e-5
    atol: NonNegativeFloat = 1e-8
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
        for comparison in self._comparisons(window):
            compared.setdefault((comparison.run, comparison.here.worker, comparison.here.tensor), []).append(comparison)
        if not compared:
            others = ", ".join(self.other_trials)
            return Undecided(f"no tensor saved at this step was saved at the same step of {others}")
        different = [worst for comparisons in compared.values() if (worst := _difference(comparisons)) is not None]
        alike = [comparisons[0] for comparisons in compared.values() if _difference(comparisons) is None]
        if self.fires_on == "different" and different:
            return self._differs(different)
        if self.fires_on == "similar" and alike:
            return self._is_same(alike)
        return clear_if_complete(window, "captured data")

    def _comparisons(self, window: Window) -> Iterator[_Comparison]:
        for run, other in window.others.items():
            for statistic in self._statistics:
                known = {(_rank(reading.worker), reading.tensor): reading for reading in other.readings(statistic)}
                for here in window.readings(statistic):
                    there = known.get((_rank(here.worker), here.tensor))
                    if there is not None and here.tensor not in PROCESS_MEMORY:
                        yield _Comparison(run, here, there, self._is_alike(here.value, there.value))

    def _is_alike(self, here: float, there: float) -> bool:
        if not (math.isfinite(here) and math.isfinite(there)):
            return here == there or (math.isnan(here) and math.isnan(there))
        return abs(here - there) <= self.atol + self.rtol * abs(there)

    def _differs(self, different: list[_Comparison]) -> Fired:
        worst = max(different, key=lambda comparison: comparison.distance)
        name = worst.here.statistic
        message = (
            f"{worst.here.tensor}: its bits differ from {worst.run}"
            if name == "checksum"
            else f"{worst.here.tensor}: {_label(name)}{worst.here.value:.6g}, in {worst.run} {worst.there.value:.6g}"
        )
        return fired(
            message,
            worst.here.tensor,
            *(comparison.here.tensor for comparison in different),
            advice=_DIFFERENT,
            evidence={
                "run": worst.run,
                "statistic": name,
                "here": worst.here.value,
                "there": worst.there.value,
                "rtol": self.rtol,
                "atol": self.atol,
            },
            noun="tensor",
            count="tensors",
            worker=worst.here.worker,
        )

    def _is_same(self, alike: list[_Comparison]) -> Fired:
        first = alike[0]
        return fired(
            f"{first.here.tensor} is the same as in {first.run}",
            *(comparison.here.tensor for comparison in alike),
            advice=_SIMILAR,
            evidence={
                "run": first.run,
                "statistic": first.here.statistic,
                "here": first.here.value,
                "there": first.there.value,
            },
            noun="tensor",
            count="tensors",
            worker=first.here.worker,
        )


def _difference(comparisons: list[_Comparison]) -> _Comparison | None:
    """Return the statistic in which a tensor differs most; None if it differs in none."""
    return max(
        (comparison for comparison in comparisons if not comparison.is_alike),
        key=lambda comparison: comparison.distance,
        default=None,
    )


def _rank(worker: str) -> str:
    """Return the rank of a worker, which is the same in every run, unlike its pid."""
    return worker.partition("-")[0]


def _label(statistic: str) -> str:
    return "" if statistic == "value" else f"{statistic} "
