"""The folder of what readers fetched or converted, and can make again."""

from __future__ import annotations

import os
from typing import Final

_CACHE: Final = "LEADLINE_CACHE"


def cache_folder(part: str) -> str:
    """Return the folder of a part of the cache: in ``$LEADLINE_CACHE``, by default ``~/.cache/leadline``."""
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leadline")
    return os.path.join(os.path.abspath(os.path.expanduser(os.environ.get(_CACHE) or default)), part)
