"""What each statistic means, how exact it is, and which of them a device must compute for which others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from leadline.errors import UnknownNameError

Source = Literal[
    "elements", "sample", "order", "bits", "batch", "change", "update", "number", "units", "classes", "pair"
]
"""What a statistic is computed from.

``elements``: all of them, in any order; ``sample``: at most 4,096 of them; ``order``: all of them, sorted; ``bits``:
their bits, in order; ``batch``: the tensor as samples; ``change``: it and its previous capture; ``update``: it before
and after an optimizer step; ``number``: nothing, it is a number already; ``units``: its units, over the samples;
``classes``: its labels; ``pair``: the labels and logits of a loss call.
"""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic.

    Every statistic of an empty tensor is absent (NaN in a row) but the counts, which are 0. Of a complex tensor the
    moduli are taken, but for what compares it with another (``source`` ``change`` and ``update``).
    """

    name: str
    meaning: str
    unit: str
    """``tensor`` (that of the elements), ``count``, ``ratio``, ``hash``."""
    not_a_number: str
    """What NaN and infinity among the elements do."""
    from_primaries: tuple[str, ...] = ()
    """What a device must compute for it; empty: the statistic itself."""
    source: Source = "elements"
    is_vector: bool = False
    """Whether it is an array, stored as the tensor ``<name>@<statistic>``."""
    error: str = ""
    """How far it may be off because it is taken from a sample; empty: it is exact."""
    family: str = ""
    """For one of a family: the family's pattern, ``p<percent>``; else empty."""
    arguments: tuple[float, ...] = ()
    """For one of a family: the numbers in its name."""

    @property
    def is_sampled(self) -> bool:
        """Whether it is taken from a sample of a large tensor."""
        return bool(self.error)


SAMPLE_ELEMENTS: Final = 4096
"""The most elements of a tensor that a sampled statistic looks at."""
HISTOGRAM_BINS: Final = 30
MOST_CLASSES: Final = 1000
"""Classes beyond these are not counted."""

PROPAGATES: Final = "a NaN or infinity among the elements shows in the result as IEEE 754 has it"
_FINITE: Final = "of the finite elements, where there are any"
_ONLY_FINITE: Final = "of the finite elements; absent where there are none"
_SAMPLE: Final = "an evenly spaced sample of 1,300 to 4,096 elements (of some tensors below 17,000 as few as 350)"
_RANK_ERROR: Final = (
    f"of tensors above 4,096 elements from {_SAMPLE}: the rank is off by 0.8 to 1.4 (2.7) percentage points, one "
    "standard deviation, at the median; less towards the ends"
)
_CHANGE_ERROR: Final = (
    f"exact while copies of the previous captures fit in device_bytes, else from {_SAMPLE}, and a note of the worker "
    "says so; "
)
_SHARE_ERROR: Final = (
    _CHANGE_ERROR + "the share is then off by 0.8 to 1.4 (2.7) percentage points, one standard deviation"
)

_ALL: Final = (
    Statistic("value", "the number itself", "tensor", "as it is", source="number"),
    Statistic("count", "how many values were averaged (micro-batches)", "count", "counted", source="number"),
    Statistic("min", "smallest element", "tensor", _FINITE),
    Statistic("max", "largest element", "tensor", _FINITE),
    Statistic("sum", "sum of the elements", "tensor", PROPAGATES),
    Statistic("mean", "sum over number of elements", "tensor", PROPAGATES, ("sum",)),
    Statistic("prod", "product of the elements, 0 or infinite beyond what float64 holds", "tensor", PROPAGATES),
    Statistic("l1", "sum of absolute values", "tensor", PROPAGATES),
    Statistic("l2", "square root of the sum of squares (entrywise)", "tensor", PROPAGATES),
    Statistic("abs_mean", "l1 over number of elements", "tensor", PROPAGATES, ("l1",)),
    Statistic("abs_max", "largest absolute value", "tensor", "of the finite elements, where any", ("min", "max")),
    Statistic("abs_min", "smallest absolute value", "tensor", _FINITE),
    Statistic("rms", "l2 over the square root of the number of elements", "tensor", PROPAGATES, ("l2",)),
    Statistic("std", "square root of the population variance", "tensor", PROPAGATES),
    Statistic("variance", "population variance: mean squared distance from the mean", "tensor", PROPAGATES, ("std",)),
    Statistic("zero_ratio", "share of elements that are exactly zero", "ratio", "not zero"),
    Statistic("nan_count", "number of NaN elements", "count", "counted", ("nan_count", "nonfinite_count")),
    Statistic("nonfinite_count", "number of NaN or infinite elements", "count", "counted"),
    Statistic(
        "median",
        "the middle element, or the mean of the two",
        "tensor",
        _ONLY_FINITE,
        source="sample",
        error=_RANK_ERROR,
    ),
    Statistic(
        "median_exact",
        "the middle of all elements, or the mean of the two; dear: sorts the tensor",
        "tensor",
        _ONLY_FINITE,
        source="order",
    ),
    Statistic(
        "checksum",
        "a hash of the exact bits in their order, below 2**48: equal bits, equal number",
        "hash",
        "by its bits",
        source="bits",
    ),
    Statistic(
        "batch_std",
        "mean over the features of the standard deviation over the samples (dimension 0)",
        "tensor",
        PROPAGATES,
        source="batch",
    ),
    Statistic(
        "change_l2",
        "l2 of the change since the previous capture; absent at the first",
        "tensor",
        PROPAGATES,
        source="change",
        error=_CHANGE_ERROR + "the norm is then scaled up to the whole tensor",
    ),
    Statistic(
        "update_ratio",
        "l2 of the optimizer step's change over l2 before it",
        "ratio",
        PROPAGATES,
        source="update",
        error=_CHANGE_ERROR + "both norms are then the sample's",
    ),
    Statistic(
        "histogram",
        f"lowest, highest, and how many elements fall in each of {HISTOGRAM_BINS} bins of equal "
        "width between them (of a constant tensor: all in the middle one)",
        "count",
        "not counted",
        source="sample",
        is_vector=True,
        error=_RANK_ERROR + "; the counts are the sample's",
    ),
    Statistic(
        "histogram_exact", "the histogram of all elements", "count", "not counted", source="order", is_vector=True
    ),
    Statistic(
        "unit_activity",
        "of each unit: share of the samples with a value above 0",
        "ratio",
        "not above 0",
        source="units",
        is_vector=True,
    ),
    Statistic("unit_mean", "of each unit: mean over the samples", "tensor", PROPAGATES, source="units", is_vector=True),
    Statistic(
        "unit_std",
        "of each unit: population standard deviation over the samples",
        "tensor",
        PROPAGATES,
        source="units",
        is_vector=True,
    ),
    Statistic(
        "class_counts",
        f"how often each class occurs, up to class {MOST_CLASSES - 1}; of floating logits the "
        "class with the largest one",
        "count",
        "NaN counts as the largest logit",
        source="classes",
        is_vector=True,
    ),
    Statistic(
        "confusion",
        "how often a label (row) was predicted as a class (column), from the labels of a loss call "
        f"and the largest of its logits; kept under the labels' name; none beyond {MOST_CLASSES} classes",
        "count",
        "NaN counts as the largest logit",
        source="pair",
        is_vector=True,
    ),
)

STATISTICS: Final[dict[str, Statistic]] = {each.name: each for each in _ALL}
"""The statistics with a name of their own; those of families ``find_statistic`` makes."""

CORE: Final = ("min", "max", "sum", "mean", "l1", "l2", "abs_mean", "abs_max")
"""The core set: what one pass of few kernels gives."""
BASIC: Final = (*CORE, "std", "zero_ratio", "nan_count", "nonfinite_count")
"""What presets and ``--capture`` take unless told otherwise; weights get ``update_ratio`` as well."""


@dataclass(frozen=True, slots=True)
class Family:
    """Statistics that differ by the numbers in their names."""

    pattern: str
    """How the names are written: ``within_<low>_<high>``."""
    example: str
    prototype: Statistic
    refuse: Callable[[tuple[float, ...]], str]
    """What is wrong with some numbers; empty: nothing."""

    def match(self, name: str) -> tuple[float, ...] | None:
        """The numbers in a name of this family; None: it is none of it."""
        spoken = re.fullmatch(re.sub("<[a-z]+>", lambda _: f"({_NUMBER})", self.pattern), name)
        return tuple(float(each) for each in spoken.groups()) if spoken else None


_NUMBER: Final = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|-?inf"


def _ascending(numbers: tuple[float, ...]) -> str:
    return "" if numbers[0] <= numbers[1] else "the lower bound comes first"


def _percent(numbers: tuple[float, ...]) -> str:
    return "" if 0 <= numbers[0] <= 100 else "a percentile is p0 to p100"


def _tolerances(numbers: tuple[float, ...]) -> str:
    return "" if min(numbers) >= 0 and max(numbers) < float("inf") else "tolerances are finite and not negative"


def _nothing(numbers: tuple[float, ...]) -> str:
    return ""


def _family(
    pattern: str,
    example: str,
    meaning: str,
    refuse: Callable[[tuple[float, ...]], str] = _nothing,
    *,
    unit: str = "ratio",
    not_a_number: str,
    source: Source = "elements",
    is_vector: bool = False,
    error: str = "",
) -> Family:
    prototype = Statistic(
        pattern, meaning, unit, not_a_number, source=source, is_vector=is_vector, error=error, family=pattern
    )
    return Family(pattern, example, prototype, refuse)


FAMILIES: Final = (
    _family(
        "p<percent>",
        "p95",
        "percentile, linearly interpolated",
        _percent,
        unit="tensor",
        not_a_number=_ONLY_FINITE,
        source="sample",
        error=_RANK_ERROR,
    ),
    _family(
        "p<percent>_exact",
        "p95_exact",
        "percentile of all elements; dear: sorts the tensor",
        _percent,
        unit="tensor",
        not_a_number=_ONLY_FINITE,
        source="order",
    ),
    _family(
        "within_<low>_<high>",
        "within_-1_1",
        "share of the elements from low to high, both included",
        _ascending,
        not_a_number="NaN lies in no band",
    ),
    _family(
        "equals_<number>",
        "equals_0",
        "share of the elements equal to a number (to the bit: a float32 is never 0.1)",
        not_a_number="NaN equals nothing",
    ),
    _family(
        "close_<rtol>_<atol>",
        "close_1e-05_1e-08",
        "share of the elements within atol + rtol x |before| of what "
        "they were at the tensor's previous capture; absent at the first",
        _tolerances,
        not_a_number="NaN is close to nothing, an infinity to itself",
        source="change",
        error=_SHARE_ERROR,
    ),
    _family(
        "close_<rtol>_<atol>_nan",
        "close_1e-05_1e-08_nan",
        "as close_<rtol>_<atol>, with NaN close to NaN",
        _tolerances,
        not_a_number="NaN is close to NaN",
        source="change",
        error=_SHARE_ERROR,
    ),
    _family(
        "unit_within_<low>_<high>",
        "unit_within_-9.5_9.5",
        "of each unit: share of the samples from low to high, both included",
        _ascending,
        not_a_number="NaN lies in no band",
        source="units",
        is_vector=True,
    ),
)


@lru_cache(maxsize=1024)
def find_statistic(name: str) -> Statistic:
    """The statistic of a name.

    Raises:
        UnknownNameError: There is none; the nearest name, or what is wrong with its numbers, is suggested.
    """
    if name in STATISTICS:
        return STATISTICS[name]
    for family in FAMILIES:
        numbers = family.match(name)
        if numbers is None:
            continue
        wrong = family.refuse(numbers)
        if wrong:
            raise UnknownNameError("statistic", name, _known(), hint=wrong)
        plain = family.prototype
        return Statistic(
            name,
            plain.meaning,
            plain.unit,
            plain.not_a_number,
            source=plain.source,
            is_vector=plain.is_vector,
            error=plain.error,
            family=family.pattern,
            arguments=numbers,
        )
    raise UnknownNameError("statistic", name, _known())


def _known() -> tuple[str, ...]:
    return (*STATISTICS, *(each.example for each in FAMILIES))


def is_vector(name: str) -> bool:
    """Whether the statistic of a name is an array, and so no column of a series."""
    return find_statistic(name).is_vector


def primaries(statistics: frozenset[str]) -> frozenset[str]:
    """What a device must compute so that ``statistics`` (of source ``elements``) can be derived."""
    return frozenset(primary for name in statistics for primary in (find_statistic(name).from_primaries or (name,)))
