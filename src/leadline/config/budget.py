"""Parsing of the overhead budget: ``2%`` or ``off``."""

from __future__ import annotations

from typing import Final

from leadline.errors import ConfigurationError

DEFAULT_BUDGET: Final = "2%"


def parse_budget(text: str, where: str) -> float | None:
    """Parse a budget as a share of the step time.

    Units:
        A ratio: ``2%`` gives 0.02; ``off`` gives None.
    Raises:
        ConfigurationError: It is neither a percentage above 0 and at most 100, nor ``off``.
    """
    if text == "off":
        return None
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not percent or rest or not 0 < share <= 1:
        hint = f"; did you mean {text}%?" if not percent and 0 < share <= 1 else ""
        raise ConfigurationError(f"{where} must be a percentage of the step time like 2%, or off, not {text!r}{hint}")
    return share
