"""Numbers with names in a line of text, as scripts print them: ``epoch 3 | loss 0.31 | val_acc: 91.2%``."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

from leadline.records.metric_names import is_loss, kind_of, stem_of

MAX_CHARACTERS: Final = 2000
"""Of a line; the rest is not read."""
_MAX_NUMBERS: Final = 64
_MAX_WORDS: Final = 6
_MAX_NAME: Final = 48

_NUMBER: Final = re.compile(
    r"(?<![\w.@#^])(?<![A-Za-z]-)"
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?\d++)?+|nan|NaN|inf)"
    r"(?![\w])(?!\.\d)"
)
"""Possessive: time grows with the length of a line only."""
_DENOMINATOR: Final = re.compile(r" ?/ ?(\d++)(?![\w.])")
_SECOND: Final = re.compile(r" {0,8}\( {0,8}[-+]?[\d.]++ {0,8}\)")
"""A second number in parentheses: a running mean, or a standard deviation."""
_PERCENT: Final = re.compile(r" ?%")
_TAILS: Final = ("%", "/", "(")
"""How what belongs to a number begins."""
_WRAPPER: Final = re.compile(r"(?:tensor|array|Array|(?:np\.|numpy\.)?float\d{0,2})\($")
_QUALIFIED: Final = re.compile(r"([A-Za-z][\w @./-]{0,40}+)\(([A-Za-z][\w @.-]{0,19}|%)\)$")
"""A name with a word behind it in parentheses: ``Loss (val)``, ``Acc (%)``."""
_SPLIT: Final = re.compile(r"[|,;\[\](){}<>\t\n]|  |: | [-–—] |=")
_ROLE: Final = re.compile(
    r"(?<![A-Za-z])(?:train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)(?![A-Za-z])", re.I
)
_LEVEL: Final = re.compile(
    r"(?<![A-Za-z])(?:best|target|goal|threshold|required|previous|prev|last|old|initial|baseline|random|chance|max|min|"
    r"highest|lowest|running|smoothed|ema)(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words of a metric that is not that of the model now; they stay in its name."""
_PART: Final = re.compile(r"(?<![A-Za-z])(?:class|client|task|domain|subject|label|speaker|target)(?![A-Za-z])", re.I)
"""What follows is of a part of the data."""
_UNFINISHED: Final = frozenset({"the", "of", "on", "in", "at", "for"})
_ANSI: Final = re.compile(r"\x1b\[[\d;]{0,16}[A-Za-z]")
_PREFIXED: Final = re.compile(
    r"^(?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\d*[-_/. ](?=.)", re.IGNORECASE
)
"""A name whose role its beginning tells, as ``leadline.records.loss_roles`` reads it."""


class NamedNumber(NamedTuple):
    """A number with the name before it.

    Attributes:
        name: As the script spells it; a role that stands elsewhere in the line comes first: ``Test Accuracy``.
        value: A percentage (``91.2%``) and a count of a total (``912/1000``) of a metric as a ratio.
        start: Where the number begins in the line.
        is_explicit: Whether ``:`` or ``=`` stands between name and number.
        is_clear: Whether the line leaves no doubt which number it is, and of which data.
    """

    name: str
    value: float
    start: int
    is_explicit: bool
    is_clear: bool = True


def named_numbers(line: str) -> list[NamedNumber]:
    """Return the numbers of a line that have names.

    Not a number:
        ``nan`` and ``inf`` are numbers.
    """
    line = line[:MAX_CHARACTERS]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    found: list[NamedNumber] = []
    end, label, is_of_part = 0, "", False
    for count, match in enumerate(_NUMBER.finditer(line)):
        if match.start() < end:
            continue  # the total of a count
        if count >= _MAX_NUMBERS:
            break
        gap, start = line[end : match.start()], match.start()
        value, end, is_percent, is_of_two = _value(line, match)
        name, is_explicit, label, is_part, is_named_percent = _name(gap, label)
        is_of_part, is_percent = is_of_part or is_part, is_percent or is_named_percent
        if name:
            is_ratio = kind_of(name) == "metric" and not is_loss(name)
            if is_percent or (not math.isnan(value[1]) and is_ratio):
                number = value[0] / (100.0 if is_percent else value[1])
            elif not math.isnan(value[1]):
                continue  # 3/10, of no metric
            else:
                number = value[0]
            found.append(NamedNumber(name, number, start, is_explicit, not (is_of_two or is_of_part)))
    return _without_doubt(found)


def number_of(text: str) -> float | None:
    """Return a number that stands alone, as in a cell of a table: ``0.91``, ``91.2 %``; None: it is none."""
    match = _NUMBER.fullmatch(stripped := text.strip()[:_MAX_NAME].removesuffix("%").rstrip())
    if match is None:
        return None
    number = float(stripped.replace(",", ""))
    return number / 100.0 if text.rstrip().endswith("%") else number


def _value(line: str, match: re.Match[str]) -> tuple[tuple[float, float], int, bool, bool]:
    """Return the number and what it is divided by (NaN: nothing), the end, whether it is in percent, and one of two."""
    value, end, total = float(match[0].replace(",", "")), match.end(), math.nan
    follows = line[end : end + 9].lstrip(" ")[:1]
    if follows not in _TAILS:
        return (value, total), end, False, False
    denominator = _DENOMINATOR.match(line, end)
    if denominator is not None:
        end, total = denominator.end(), float(denominator[1])
        return (value, total or math.nan), end, False, False
    percent = _PERCENT.match(line, end)
    if percent is not None:
        end = percent.end()
    return (value, total), end, percent is not None, _SECOND.match(line, end) is not None


@lru_cache(maxsize=512)
def _name(gap: str, label: str) -> tuple[str, bool, str, bool, bool]:
    """Return what the text before a number says.

    Returns:
        Name; whether a sign follows it; the role in force; whether it is of a part of the data, and in percent.
    """
    text = _WRAPPER.sub("", gap)
    bare = text.rstrip(" :=>~'\"\t*$€£")
    sign = text[len(bare) :]
    is_explicit = ":" in sign or "=" in sign
    qualified = _QUALIFIED.search(bare) if bare.endswith(")") else None
    is_percent = qualified is not None and qualified[2] == "%"
    if qualified is not None:
        stem, inside = qualified[1].rstrip(), "" if is_percent else qualified[2]
        both = f"{inside} {stem}" if _ROLE.fullmatch(inside) else f"{stem} {inside}"
        bare = bare[: qualified.start()] + both.rstrip()
    if "|" in gap or ";" in gap:
        label = ""
    parts = _SPLIT.split(bare)
    for part in parts[:-1]:
        roles = _ROLE.findall(part)
        label = roles[-1] if roles else label
    level, is_part = _LEVEL.search(parts[-1]), _PART.search(bare) is not None
    name = _phrase(parts[-1].strip(" '\"*_#."), is_explicit) if sign else ""
    if not name or not name[0].isalpha() or len(name) > _MAX_NAME:
        return "", False, label, is_part, False
    role = _ROLE.search(name)
    if role is None:
        name = f"{label} {name}" if label and kind_of(name) == "metric" else name
    else:
        label = role[0] if name[role.end() : role.end() + 1] == " " else label
        others = [word for word in name.split() if word != role[0]]
        name = name if _PREFIXED.match(name) else " ".join((role[0], *others))
    if level is not None and level[0] not in name.split():
        name = f"{level[0]} {name}"
    return name, is_explicit, label, is_part, is_percent


def _phrase(text: str, is_explicit: bool) -> str:
    """Return the longest end of a text that is the name of a metric; without one all of it, if a sign follows."""
    words = text.removesuffix(" is").split()[-_MAX_WORDS:]
    if not words or words[-1].lower() in _UNFINISHED:
        return ""
    for first in range(len(words)):
        name = " ".join(words[first:])
        if kind_of(name) == "metric":
            return name
    return " ".join(words) if is_explicit and len(words) <= 3 else ""


def _without_doubt(numbers: list[NamedNumber]) -> list[NamedNumber]:
    """Mark what a line with validation metrics names without a role: it is of the training, or of anything else."""
    stems = [stem_of(number.name) for number in numbers]
    if not any(role == "validation" for role, _ in stems):
        return numbers
    return [
        number if role else number._replace(is_clear=False) for number, (role, _) in zip(numbers, stems, strict=True)
    ]
