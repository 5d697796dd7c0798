"""Opening a trial, in smdebug's interface."""

from __future__ import annotations

import os
from typing import Any

from leadline.compat.smdebug.trials.trial import Trial, check_options


def create_trial(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    range_steps: tuple[int | None, int | None] | None = None,
    **others: Any,
) -> Trial:
    """Open a trial that smdebug wrote, or a run of Leadline.

    With a URI of S3, waits until something was saved there, as smdebug does.

    Args:
        path: Its folder; of a job, the folder with ``debug-output``; or the URI of either.
        name: A name for it; default: that of the folder.
        range_steps: Only global steps from the first to before the second; None for no limit.
        others: smdebug's ``check``, ``cache``, ``index_mode`` and ``parallel``, which change nothing here.
    Raises:
        TypeError: There is another argument.
        ValueError: The range is empty.
        RunNotFoundError, ConfigurationError: There is no trial at the path.
        StoreError: The object store cannot be read.
    """
    check_options(others)
    return Trial(os.fspath(path).strip(), name, range_steps)
