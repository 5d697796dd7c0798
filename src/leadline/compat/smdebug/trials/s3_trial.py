"""A trial by its bucket, in smdebug's interface."""

from __future__ import annotations

from typing import Any

from leadline.compat.smdebug.trials.trial import Trial, check_options


class S3Trial(Trial):
    """A trial in S3.

    Args:
        name: A name for it.
        bucket_name, prefix_name: Where it is.
    """

    def __init__(
        self,
        name: str,
        bucket_name: str,
        prefix_name: str,
        range_steps: tuple[int | None, int | None] | None = None,
        **others: Any,
    ) -> None:
        check_options(others)
        super().__init__(f"s3://{bucket_name}/{prefix_name}", name, range_steps)
