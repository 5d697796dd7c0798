"""Small functions that scripts and rules import from ``smdebug.core.utils``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from leadline.compat.smdebug.core.error_handling_agent import error_handling_agent
from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError

__all__ = [
    "error_handling_agent",
    "get_aws_region_from_processing_job_arn",
    "get_logger",
    "get_path_to_collections",
    "is_s3",
    "make_numpy_array",
    "match_inc",
    "setup_profiler_report",
]
_COLLECTIONS: Final = "collections"
_PROCESSING_JOB: Final = re.compile(r"arn:aws[\w-]*:sagemaker:([\w-]+):\d{12}:processing-job/[\w-]+")


def is_s3(path: str) -> tuple[bool, str | None, str | None]:
    """Return whether a path is an S3 address, with its bucket and key."""
    parts = urlsplit(str(path))
    if parts.scheme.lower() != "s3":
        return False, None, None
    return True, parts.netloc, parts.path.removeprefix("/")


def make_numpy_array(x: Any) -> npt.NDArray[Any]:
    """Return an array as it is, a number or text as an array of one element, and anything else as an array.

    Raises:
        SMDebugTypeError: It cannot be one.
    """
    if isinstance(x, np.ndarray):
        return x
    try:
        return np.asarray([x] if np.isscalar(x) else x)
    except ValueError as error:
        raise SMDebugTypeError(f"an array cannot be made of {type(x).__name__}: {error}") from None


def match_inc(tname: str, include: Iterable[str]) -> bool:
    """Return whether a name contains a match of any regular expression."""
    return any(re.search(pattern, tname) for pattern in include)


def get_aws_region_from_processing_job_arn(processing_job_arn: str) -> str:
    """Return the region of a processing job.

    Raises:
        SMDebugValueError: It is not the ARN of one.
    """
    found = _PROCESSING_JOB.fullmatch(processing_job_arn)
    if found is None:
        raise SMDebugValueError(f"not the ARN of a processing job: {processing_job_arn!r}")
    return found[1]


def setup_profiler_report(processing_job_arn: str, opt_out: bool = False) -> None:
    """Do nothing: Amazon's notebook of the profiler report calls it, to report its use to Amazon."""


def get_path_to_collections(directory: str) -> str:
    """Return the folder of the collections files of a trial."""
    return os.path.join(directory, _COLLECTIONS, f"{0:09d}")
