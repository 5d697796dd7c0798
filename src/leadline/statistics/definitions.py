"""Definitions of the statistics: meaning, exactness, and how they are derived from primaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from leadline.errors import UnknownNameError
from leadline.statistics.derivations import (
    LARGEST_MODULUS,
    Derivation,
    per_element,
    primary,
    root_of,
    root_per_element,
)

Source = Literal[
    "elements", "sample", "order", "bits", "batch", "change", "update", "number", "units", "classes", "pair", "samples"
]
"""The data that a statistic is computed from.

``elements``: all elements, in any order; ``sample``: at most 4,096 elements; ``order``: all elements, sorted; ``bits``:
their bits, in order; ``batch``: the tensor as samples; ``change``: the tensor and its previous capture; ``update``: the
tensor before and after an optimizer step; ``number``: the value is a scalar already; ``units``: its units, over the
samples; ``classes``: its labels; ``pair``: the labels and logits of a loss call; ``samples``: each sample alone.
"""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic.

    Every statistic of an empty tensor is absent (NaN in a row), except the counts, which are 0. Complex elements are
    replaced by their absolute values, except for comparisons with another tensor (``source`` ``change`` and
    ``update``).
    """

    name: str
    meaning: str
    unit: str
    """``tensor`` (the unit of the elements), ``count``, ``ratio``, ``hash``."""
    not_a_number: str
    """The effect of NaN and infinite elements."""
    derivation: Derivation | None = None
    """How it follows from primaries; None: it is computed from the elements."""
    source: Source = "elements"
    is_vector: bool = False
    """Whether it is a vector, stored as the tensor ``<name>@<statistic>``."""
    error: str = ""
    """The error of a sampled statistic; empty: it is exact."""
    family: str = ""
    """For a member of a family: the family's pattern, ``p<percent>``; otherwise empty."""
    arguments: tuple[float, ...] = ()
    """For a member of a family: the numbers in its name."""

    @property
    def is_sampled(self) -> bool:
        """Whether it is computed from a sample of a large tensor."""
        return bool(self.error)


SAMPLE_ELEMENTS: Final = 4096
"""Maximum number of elements from which a sampled statistic is computed."""
HISTOGRAM_BINS: Final = 30
MAX_CLASSES: Final = 1000
"""Number of classes that are counted; higher classes are ignored."""
QUANTILES: Final = 128
"""Number of groups of sorted elements whose means are kept."""
FINGERPRINTED_SAMPLES: Final = 1024
"""Number of samples of a batch that get a fingerprint, the first ones."""
FINGERPRINTED_ELEMENTS: Final = 256
"""Number of elements of a sample that its fingerprint is computed from, evenly spread."""

PROPAGATES: Final = "NaN and infinite elements propagate to the result as in IEEE 754"
_FINITE: Final = "of the finite elements, if there are any"
_ONLY_FINITE: Final = "of the finite elements; absent if there are none"
_LARGE: Final = "above 4,096 elements: "
_RANK_ERROR: Final = _LARGE + "the rank is that of the sample"
_CHANGE_ERROR: Final = "if copies of the previous captures do not fit in device_bytes: "
_SHARE_ERROR: Final = _CHANGE_ERROR + "the share is that of the sample"

_ALL: Final = (
    Statistic("value", "the number itself", "tensor", "as it is", source="number"),
    Statistic("count", "number of averaged values (micro-batches)", "count", "counted", source="number"),
    Statistic("min", "smallest element", "tensor", _FINITE, primary("min")),
    Statistic("max", "largest element", "tensor", _FINITE, primary("max")),
    Statistic("sum", "sum of the elements", "tensor", PROPAGATES, primary("sum")),
    Statistic("mean", "sum over number of elements", "tensor", PROPAGATES, per_element("sum")),
    Statistic(
        "prod",
        "product of the elements, 0 or infinite outside the range of float64",
        "tensor",
        PROPAGATES,
        primary("prod"),
    ),
    Statistic("l1", "sum of absolute values", "tensor", PROPAGATES, primary("l1")),
    Statistic("l2", "square root of the sum of squares (entrywise)", "tensor", PROPAGATES, root_of("squares")),
    Statistic("abs_mean", "l1 over number of elements", "tensor", PROPAGATES, per_element("l1")),
    Statistic("abs_max", "largest absolute value", "tensor", "of the finite elements, if any", LARGEST_MODULUS),
    Statistic("abs_min", "smallest absolute value", "tensor", _FINITE, primary("abs_min")),
    Statistic(
        "rms", "l2 over the square root of the number of elements", "tensor", PROPAGATES, root_per_element("squares")
    ),
    Statistic("std", "square root of the population variance", "tensor", PROPAGATES, root_per_element("centred")),
    Statistic(
        "variance",
        "population variance: mean squared distance from the mean",
        "tensor",
        PROPAGATES,
        per_element("centred"),
    ),
    Statistic("zero_ratio", "share of elements that are exactly zero", "ratio", "not zero", per_element("zeros")),
    Statistic("nan_count", "number of NaN elements", "count", "counted", primary("nan_count")),
    Statistic("nonfinite_count", "number of NaN or infinite elements", "count", "counted", primary("nonfinite_count")),
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
        "the middle of all elements, or the mean of the two; expensive: sorts the tensor",
        "tensor",
        _ONLY_FINITE,
        source="order",
    ),
    Statistic(
        "checksum",
        "a hash of the exact bits in their order, below 2**48: equal bits, equal number",
        "hash",
        "compared by bits",
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
        root_of("change_squares"),
        source="change",
        error=_CHANGE_ERROR + "the norm of the sample, scaled up to the whole tensor",
    ),
    Statistic(
        "update_ratio",
        "l2 of the change by the optimizer step, divided by the l2 before it",
        "ratio",
        PROPAGATES,
        source="update",
        error=_CHANGE_ERROR + "both norms are those of the sample",
    ),
    Statistic(
        "histogram",
        f"minimum, maximum, and the number of elements in each of {HISTOGRAM_BINS} bins of equal "
        "width between them (for a constant tensor all in the middle bin)",
        "count",
        "not counted",
        source="sample",
        is_vector=True,
        error=_LARGE + "the counts are those of the sample",
    ),
    Statistic("histogram_exact", "histogram of all elements", "count", "not counted", source="order", is_vector=True),
    Statistic(
        "quantile_means",
        f"means of {QUANTILES} groups of sorted elements of nearly equal size; fewer elements themselves, sorted",
        "tensor",
        "left out; a group without elements is NaN",
        source="sample",
        is_vector=True,
        error=_LARGE + "the groups are those of the sample",
    ),
    Statistic(
        "unit_activity",
        "for each unit, the share of the samples with a value above 0",
        "ratio",
        "not above 0",
        source="units",
        is_vector=True,
    ),
    Statistic(
        "unit_mean", "for each unit, the mean over the samples", "tensor", PROPAGATES, source="units", is_vector=True
    ),
    Statistic(
        "unit_std",
        "for each unit, the population standard deviation over the samples",
        "tensor",
        PROPAGATES,
        source="units",
        is_vector=True,
    ),
    Statistic(
        "class_counts",
        f"how often each class occurs, up to class {MAX_CLASSES - 1}; for floating logits the "
        "class with the largest logit",
        "count",
        "NaN counts as the largest logit",
        source="classes",
        is_vector=True,
    ),
    Statistic(
        "confusion",
        "how often a label (row) was predicted as a class (column), from the labels of a loss call "
        f"and the largest of its logits; stored under the name of the labels; none above {MAX_CLASSES} classes",
        "count",
        "NaN counts as the largest logit",
        source="pair",
        is_vector=True,
    ),
    Statistic(
        "fingerprints",
        f"for each of the first {FINGERPRINTED_SAMPLES:,} samples (rows) 64 bits, as two integers of 32 bits, in which "
        f"equal samples agree; of more than {FINGERPRINTED_ELEMENTS} elements of a sample so many, evenly spread",
        "hash",
        "every NaN is equal, and 0 equals -0",
        source="samples",
        is_vector=True,
    ),
)

STATISTICS: Final[dict[str, Statistic]] = {statistic.name: statistic for statistic in _ALL}
"""The statistics with a fixed name; ``find_statistic`` creates those of families."""

CORE: Final = ("min", "max", "sum", "mean", "l1", "l2", "abs_mean", "abs_max")
"""The core set, computed in one pass of few kernels."""
BASIC: Final = (*CORE, "std", "zero_ratio", "nan_count", "nonfinite_count")
"""The default of presets and ``--capture``; weights get ``update_ratio`` as well."""


@dataclass(frozen=True, slots=True)
class StatisticFamily:
    """A family of statistics that differ by the numbers in their names."""

    pattern: str
    """Pattern of the names: ``within_<low>_<high>``."""
    example: str
    prototype: Statistic
    validate: Callable[[tuple[float, ...]], str]
    """Returns the error in some numbers; empty if they are valid."""

    @property
    def is_share(self) -> bool:
        """Whether a statistic is the share of the elements that match; their number is a primary of its name."""
        return self.prototype.source == "elements"

    def match(self, name: str) -> tuple[float, ...] | None:
        """Return the numbers in a name of this family; None if the name does not match."""
        match = re.fullmatch(re.sub("<[a-z]+>", lambda _: f"({_NUMBER})", self.pattern), name)
        return tuple(float(number) for number in match.groups()) if match else None


_NUMBER: Final = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|-?inf"


def _ascending(numbers: tuple[float, ...]) -> str:
    return "" if numbers[0] <= numbers[1] else "the lower bound must come first"


def _percent(numbers: tuple[float, ...]) -> str:
    return "" if 0 <= numbers[0] <= 100 else "a percentile must be between p0 and p100"


def _tolerances(numbers: tuple[float, ...]) -> str:
    return "" if min(numbers) >= 0 and max(numbers) < float("inf") else "tolerances must be finite and not negative"


def _any_numbers(numbers: tuple[float, ...]) -> str:
    return ""


def _family(
    pattern: str,
    example: str,
    meaning: str,
    validate: Callable[[tuple[float, ...]], str] = _any_numbers,
    *,
    unit: str = "ratio",
    not_a_number: str,
    source: Source = "elements",
    is_vector: bool = False,
    error: str = "",
) -> StatisticFamily:
    prototype = Statistic(
        pattern, meaning, unit, not_a_number, source=source, is_vector=is_vector, error=error, family=pattern
    )
    return StatisticFamily(pattern, example, prototype, validate)


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
        "percentile of all elements; expensive: sorts the tensor",
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
        not_a_number="NaN is never within the range",
    ),
    _family(
        "equals_<number>",
        "equals_0",
        "share of the elements equal to a number (exactly: a float32 is never 0.1)",
        not_a_number="NaN equals nothing",
    ),
    _family(
        "close_<rtol>_<atol>",
        "close_1e-05_1e-08",
        "share of the elements within atol + rtol x |before| of their "
        "values at the tensor's previous capture; absent at the first",
        _tolerances,
        not_a_number="NaN is close to nothing, infinity to itself",
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
        "for each unit, the share of the samples from low to high, both included",
        _ascending,
        not_a_number="NaN is never within the range",
        source="units",
        is_vector=True,
    ),
)


@lru_cache(maxsize=1024)
def find_statistic(name: str) -> Statistic:
    """Return the statistic of a name.

    Raises:
        UnknownNameError: There is none; the message suggests the nearest name or names the invalid numbers.
    """
    if name in STATISTICS:
        return STATISTICS[name]
    for family in FAMILIES:
        numbers = family.match(name)
        if numbers is None:
            continue
        error = family.validate(numbers)
        if error:
            raise UnknownNameError("statistic", name, _known(), hint=error)
        derivation = per_element(name) if family.is_share else None
        return replace(family.prototype, name=name, arguments=numbers, derivation=derivation)
    raise UnknownNameError("statistic", name, _known())


def _known() -> tuple[str, ...]:
    return (*STATISTICS, *(family.example for family in FAMILIES))


def is_vector(name: str) -> bool:
    """Return whether a statistic is a vector, which is not a column of a series."""
    return find_statistic(name).is_vector


@lru_cache(maxsize=256)
def primaries(statistics: frozenset[str]) -> frozenset[str]:
    """Return the primaries from which statistics derive; those without a derivation need none."""
    derivations = (find_statistic(name).derivation for name in statistics)
    return frozenset(primary for derivation in derivations if derivation for primary in derivation.primaries)
