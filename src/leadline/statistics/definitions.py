"""What each statistic means, and which of them a device must compute for which others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic.

    Every statistic of an empty tensor is absent (NaN in a row) but the counts, which are 0.
    """

    name: str
    meaning: str
    unit: str
    """``tensor`` (that of the elements), ``count``, ``ratio``."""
    not_a_number: str
    """What NaN and infinity among the elements do."""
    from_primaries: tuple[str, ...] = ()
    """What a device must compute for it; empty: the statistic itself."""


PROPAGATES = "a NaN or infinity among the elements shows in the result as IEEE 754 has it"

_ALL: Final = (
    Statistic("value", "the number itself", "tensor", "as it is"),
    Statistic("count", "how many values were averaged (micro-batches)", "count", "counted"),
    Statistic("min", "smallest element", "tensor", "of the finite elements, where there are any"),
    Statistic("max", "largest element", "tensor", "of the finite elements, where there are any"),
    Statistic("sum", "sum of the elements", "tensor", PROPAGATES),
    Statistic("mean", "sum over number of elements", "tensor", PROPAGATES, ("sum",)),
    Statistic("l1", "sum of absolute values", "tensor", PROPAGATES),
    Statistic("l2", "square root of the sum of squares (entrywise)", "tensor", PROPAGATES),
    Statistic("abs_mean", "l1 over number of elements", "tensor", PROPAGATES, ("l1",)),
    Statistic("abs_max", "largest absolute value", "tensor", "of the finite elements, where any", ("min", "max")),
    Statistic("rms", "l2 over the square root of the number of elements", "tensor", PROPAGATES, ("l2",)),
    Statistic("std", "square root of the population variance", "tensor", PROPAGATES),
    Statistic("variance", "population variance: mean squared distance from the mean", "tensor", PROPAGATES, ("std",)),
    Statistic("zero_ratio", "share of elements that are exactly zero", "ratio", "not zero"),
    Statistic("nan_count", "number of NaN elements", "count", "counted", ("nan_count", "nonfinite_count")),
    Statistic("nonfinite_count", "number of NaN or infinite elements", "count", "counted"),
    Statistic("update_ratio", "l2 of the optimizer step's change over l2 before it", "ratio", PROPAGATES),
)  # fmt: skip

STATISTICS: Final[dict[str, Statistic]] = {each.name: each for each in _ALL}

CORE: Final = ("min", "max", "sum", "mean", "l1", "l2", "abs_mean", "abs_max")
"""The core set: what one pass of few kernels gives."""
BASIC: Final = (*CORE, "std", "zero_ratio", "nan_count", "nonfinite_count")
"""What presets and ``--capture`` take unless told otherwise; weights get ``update_ratio`` as well."""
SAMPLE_ELEMENTS: Final = 4096
"""The most elements of a tensor that a sampled statistic looks at."""


def primaries(statistics: frozenset[str]) -> frozenset[str]:
    """What a device must compute so that ``statistics`` can be derived."""
    return frozenset(primary for name in statistics for primary in (STATISTICS[name].from_primaries or (name,)))
