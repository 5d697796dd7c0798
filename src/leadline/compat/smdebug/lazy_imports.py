"""Parts of the reader, imported at their first use: a training that does not use them must not load them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_TRIALS: Final = "leadline.compat.smdebug.trials"


def create_trial(path: Any, name: str | None = None, **options: Any) -> Any:
    """Open a trial; see ``leadline.compat.smdebug.trials.create_trial``."""
    return import_module(_TRIALS).create_trial(path, name, **options)
