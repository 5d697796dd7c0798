"""Writes docs/statistics.md from the definitions; run it after changing them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leadline.statistics.definitions import BASIC, CORE, FAMILIES, STATISTICS, Statistic

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "statistics.md"

_INTRODUCTION: Final = f"""\
# Statistics

Asked for with `--capture COLLECTION:statistics=NAME,NAME…`, by a rule's needs, or in the configuration. Unless told
otherwise a collection gets {", ".join(f"`{name}`" for name in BASIC[: len(CORE)])},
{", ".join(f"`{name}`" for name in BASIC[len(CORE) :])}; weights and biases get `update_ratio` as well.

Everything is computed on the tensor's own device and accumulated in float32 or wider. Whole numbers and truth values
are read as float64; bfloat16, float16 and the types of eight bits as float32. Of complex numbers the moduli are taken,
but for `checksum` and what compares a tensor with another. Sparse tensors have their implicit zeros. Of an empty
tensor every statistic is absent but the counts, which are 0. Nested, quantized and meta tensors are not read, and a
note of the worker says so. Of a tensor that is spread over processes each worker has its own part.

Where only the tensor itself was stored (`raw=true`), the reader computes them from it, exactly:
`run.tensor("fc.weight").statistic("p99.9", 100)`, `.statistic_array("unit_mean", 100)`.
"""

_ARRAYS: Final = """\
These are stored beside raw tensors, under `<tensor>@<statistic>`. A unit is dimension 1 of a tensor of two, four or
more dimensions (a feature, a channel), and the last of three; all else are samples. A tensor of one dimension is one
unit.
"""

_UNITS: Final = {"tensor": "of the elements", "count": "count", "ratio": "ratio", "hash": "none"}


def page() -> str:
    """The page as it should be."""
    families = [each.prototype for each in FAMILIES]
    named = list(STATISTICS.values())
    numbers = [each for each in (*named, *families) if not each.is_vector]
    arrays = [each for each in (*named, *families) if each.is_vector]
    sampled = [each for each in (*named, *families) if each.is_sampled]
    return "\n".join(
        [
            _INTRODUCTION,
            "## Numbers\n",
            *_table(numbers),
            "\nA name with `<…>` stands for many: "
            + ", ".join(f"`{each.example}`" for each in FAMILIES)
            + ". Numbers are written as Python writes them, `inf` among them.\n",
            "## Arrays\n",
            _ARRAYS,
            *_table(arrays),
            "\n## What is taken from a sample\n",
            *(f"* `{each.name}`: {each.error}" for each in sampled),
            "",
        ]
    )


def _table(statistics: list[Statistic]) -> list[str]:
    rows = [
        f"| `{each.name}` | {each.meaning} | {_UNITS[each.unit]} | {each.not_a_number} |".replace("|before|", "before")
        for each in statistics
    ]
    return ["| name | what it is | unit | NaN and infinity |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    PAGE.write_text(page())
