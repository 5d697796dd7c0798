"""Generates docs/reference/statistics.md from the definitions; run it after changing them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leadline.statistics.definitions import BASIC, CORE, FAMILIES, PROPAGATES, STATISTICS, Statistic, find_statistic

_MERGED: Final = ", ".join(
    f"`{name}`"
    for name in (
        *(statistic.name for statistic in STATISTICS.values() if statistic.derivation and statistic.derivation.invert),
        *(family.pattern for family in FAMILIES if find_statistic(family.example).derivation),
    )
)
"""The statistics of shards from which that of the whole follows."""

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "statistics.md"

_INTRODUCTION: Final = f"""\
# Statistics

Statistics are requested with `--capture COLLECTION:statistics=NAME,NAME…`, by a rule's needs, or in the configuration.
By default a collection gets {", ".join(f"`{name}`" for name in BASIC[: len(CORE)])},
{", ".join(f"`{name}`" for name in BASIC[len(CORE) :])}; weights and biases get `update_ratio` as well.

Statistics are computed on the tensor's own device and accumulated in float32 or wider; on an accelerator, and for
tensors of up to 16,384 elements, in float64. Integers and booleans are read as float64; bfloat16, float16 and 8-bit
types as float32 at least. Complex numbers are replaced by their absolute values, except for `checksum` and statistics
that compare two tensors. Sparse tensors include their implicit zeros. For an empty tensor every statistic is absent,
except the counts, which are 0. Nested, quantized and meta tensors are not read, which is reported as a note of the
worker.

If a parameter is sharded over processes (DTensor: FSDP2, hybrid sharding, tensor parallel), each worker captures its
own shard, without communication, and rules see shards. A reader that names no worker gets the whole tensor:
`run.tensor(name).value(step)` assembles it, and `.statistic(name, step)` merges those of the shards:
{_MERGED}
(`std` and `variance` if `mean` or `sum` was captured as well). Other statistics of the whole are computed if all shards
were stored as raw tensors; otherwise percentiles are merged from the percentiles, minimum and maximum captured of each
shard. A merged percentile lies between the smallest and the largest of the shards', which
`.statistic_range(name, step)` returns. `.statistic_array(name, step)`, and the distributions that pages draw, are
computed of the whole where all shards were stored; otherwise histograms are merged, with the elements of each bin of
a shard spread evenly over it. Statistics of units and classes of shards can be read per worker only. Flat parameters
of FSDP1, and FSDP2 over a dimension that tensor parallelism already shards, can be read per worker only.

If only the raw tensor was stored (`raw=true`), the reader computes its statistics exactly:
`run.tensor("fc.weight").statistic("p99.9", 100)`, `.statistic_array("unit_mean", 100)`.
"""

_ARRAYS: Final = """\
Arrays are stored next to raw tensors, as `<tensor>@<statistic>`. The units of a tensor are its features or channels:
dimension 1 if it has two, four or more dimensions, and the last dimension if it has three. All other dimensions are
samples. A tensor of one dimension is one unit.
"""

_SAMPLED: Final = """\
Sorting is expensive, and so are copies. These statistics are therefore computed from an evenly spaced sample of a large
tensor: 1,300 to 4,096 elements, or as few as 350 for some tensors below 17,000 elements. At the median, a rank or share
in the sample deviates from that in the tensor by 0.8 to 1.4 percentage points (one standard deviation; 2.7 with 350
elements); towards the minimum and maximum, by less. If a copy does not fit, a note of the worker reports it.

| statistic | sampled |
|---|---|
"""

_PROPAGATES: Final = "propagate"
_UNITS: Final = {"tensor": "of the elements", "count": "count", "ratio": "ratio", "hash": "none"}


def page() -> str:
    """Return the content of the page."""
    families = [family.prototype for family in FAMILIES]
    named = list(STATISTICS.values())
    numbers = [statistic for statistic in (*named, *families) if not statistic.is_vector]
    arrays = [statistic for statistic in (*named, *families) if statistic.is_vector]
    sampled = [statistic for statistic in (*named, *families) if statistic.is_sampled]
    return "\n".join(
        [
            _INTRODUCTION,
            "## Numbers\n",
            f"{_PROPAGATES.capitalize()}: {PROPAGATES}.\n",
            *_table(numbers),
            "\nA name with `<…>` is a family of statistics: "
            + ", ".join(f"`{family.example}`" for family in FAMILIES)
            + ". Numbers are written as in Python, including `inf`.\n",
            "## Arrays\n",
            _ARRAYS,
            *_table(arrays),
            "\n## Sampled statistics\n",
            _SAMPLED + "\n".join(f"| `{statistic.name}` | {statistic.error} |" for statistic in sampled),
            "",
        ]
    )


def _table(statistics: list[Statistic]) -> list[str]:
    rows = [
        f"| `{statistic.name}` | {statistic.meaning} | {_UNITS[statistic.unit]} | {_not_a_number(statistic)} |".replace(
            "|before|", "before"
        )
        for statistic in statistics
    ]
    return ["| name | meaning | unit | NaN and infinity |", "|---|---|---|---|", *rows]


def _not_a_number(statistic: Statistic) -> str:
    """Return what NaN and infinite elements do, in one word where it is the same for many statistics."""
    return _PROPAGATES if statistic.not_a_number == PROPAGATES else statistic.not_a_number


if __name__ == "__main__":
    PAGE.write_text(page())
