"""The logger of smdebug's interface."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

LOG_DUPLICATION_THRESHOLD: Final = 3
"""How often the same message is logged."""
_NAME: Final = "leadline.compat.smdebug"


class DuplicateLogFilter:
    """Drops a message that was logged ``LOG_DUPLICATION_THRESHOLD`` times."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.repeat_threshold = LOG_DUPLICATION_THRESHOLD

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        message = record.getMessage()
        self._counts[message] += 1
        return self._counts[message] <= self.repeat_threshold


def get_logger(name: str = _NAME) -> logging.Logger:
    """Return the logger of this interface; without handlers or level of its own, so that the script sets them."""
    logger = logging.getLogger(_NAME if name == "smdebug" else name)
    if not any(isinstance(known, DuplicateLogFilter) for known in logger.filters):
        logger.addFilter(DuplicateLogFilter())
    return logger
