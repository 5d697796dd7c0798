"""Hyperparameters of runs: from the command line, of boosters, and those captured of optimizers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

import pyarrow.compute as pc

from leadline.analysis.digest import Digest
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.formatting import exact

_ASSIGNMENT: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_OPTION: Final = re.compile(r"--?([A-Za-z_][\w-]*)")
_NUMBER: Final = re.compile(r"-?\.?\d.*")
_OF_BOOSTER: Final = "hyperparameters/"
"""Before the name of a booster's hyperparameter that is captured as a tensor."""
_MAX_VALUE_CHARACTERS: Final = 60


def options_of(command: Sequence[str]) -> dict[str, str]:
    """Return the options of a script: ``--lr 0.1``, ``--lr=0.1`` and ``lr=0.1``; flags without a value are left out."""
    script = next((index for index, word in enumerate(command) if word.endswith(".py")), 0)
    words = list(command[script + 1 :])
    options: dict[str, str] = {}
    for word, following in zip_longest(words, words[1:], fillvalue="-"):
        if assigned := _ASSIGNMENT.fullmatch(word):
            options[assigned[1]] = assigned[2]
        elif (named := _OPTION.fullmatch(word)) and (not following.startswith("-") or _NUMBER.fullmatch(following)):
            options[named[1]] = following
    return options


def format_hyperparameter(value: object) -> str:
    """Return a value as text, numbers with four significant digits: ``0.001``, ``1e-8``."""
    if isinstance(value, float) and math.isfinite(value):
        return exact(float(f"{value:.4g}"))
    return str(value)[:_MAX_VALUE_CHARACTERS]


@lru_cache(maxsize=20_000)
def captured_hyperparameters(path: str, version: int) -> Mapping[str, float]:
    """Return the largest values of the optimizers' settings that a run captured, such as the peak of ``SGD/lr``.

    Empty if the run cannot be read.

    Args:
        version: Differs when the run has changed.
    """
    try:
        return largest_hyperparameters(Digest(Run(path)))
    except (LeadlineError, OSError):
        return {}


def largest_hyperparameters(digest: Digest) -> dict[str, float]:
    """Return the largest values of the optimizers' settings that a run captured, such as the peak of ``SGD/lr``."""
    names = [name for name, info in digest.infos().items() if "hyperparameters" in info.collections]
    tables = [digest.scalar(name) for name in names]
    largest = {name: pc.max(table["max"]).as_py() for name, table in zip(names, tables, strict=True)}
    return {name.removeprefix(_OF_BOOSTER): value for name, value in largest.items() if value is not None}


def given_hyperparameters(command: Sequence[str], of_booster: Mapping[str, Any]) -> dict[str, str]:
    """Return the hyperparameters of a booster and those on the command line, which take precedence, as text."""
    return {**_as_text(of_booster), **options_of(command)}


def all_hyperparameters(given: Mapping[str, str], captured: Mapping[str, float]) -> dict[str, str]:
    """Return given and captured hyperparameters as text; the given ones take precedence."""
    return {**_as_text(captured), **given}


def _as_text(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: format_hyperparameter(value) for name, value in values.items()}


def sort_key(value: str | None) -> tuple[int, float, str]:
    """Return a key that orders numbers by value, then texts, then what is missing."""
    if value is None:
        return 2, 0.0, ""
    try:
        number = float(value)
    except ValueError:
        return 1, 0.0, value.lower()
    return (0, number, "") if number == number else (1, 0.0, value)
