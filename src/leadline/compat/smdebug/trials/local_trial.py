"""A trial by the name of its folder, in smdebug's interface."""

from __future__ import annotations

from typing import Any

from leadline.compat.smdebug.trials.trial import Trial, check_options


class LocalTrial(Trial):
    """A trial in a local folder.

    Args:
        name: A name for it.
        dirname: Its folder.
    """

    def __init__(
        self, name: str, dirname: str, range_steps: tuple[int | None, int | None] | None = None, **others: Any
    ) -> None:
        check_options(others)
        super().__init__(dirname, name, range_steps)
