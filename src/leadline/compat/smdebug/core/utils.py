"""Small functions that scripts and rules import from ``smdebug.core.utils``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from leadline.compat.smdebug.core.error_handling_agent import error_handling_agent
from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.exceptions import IndexReaderException, SMDebugTypeError, SMDebugValueError

__all__ = [
    "FRAMEWORK",
    "deserialize_tf_device",
    "ensure_dir",
    "error_handling_agent",
    "flatten",
    "get_aws_region_from_processing_job_arn",
    "get_logger",
    "get_path_to_collections",
    "get_path_to_events_directory",
    "get_worker_name_from_collection_file",
    "index",
    "is_first_process",
    "is_framework_version_supported",
    "is_s3",
    "make_numpy_array",
    "match_inc",
    "merge_two_dicts",
    "parse_worker_name_from_file",
    "remove_claim_file",
    "remove_file_if_exists",
    "serialize_tf_device",
    "setup_profiler_report",
    "size_and_shape",
    "split",
    "step_in_range",
]
_COLLECTIONS: Final = "collections"
_EVENTS: Final = "events"
CLAIM_FILENAME: Final = "claim.smd"
"""The file that the first of several processes creates in a trial."""
_STEP_FILE: Final = re.compile(r"\d+_(.+)\.(?:json|tfevents)")
_PROCESSING_JOB: Final = re.compile(r"arn:aws[\w-]*:sagemaker:([\w-]+):\d{12}:processing-job/[\w-]+")
_COLLECTIONS_FILE: Final = re.compile(r"(.+)_collections\.json")


class FRAMEWORK(Enum):
    """The frameworks that have a hook, by the name of their distribution."""

    TENSORFLOW = "tensorflow"
    PYTORCH = "torch"
    MXNET = "mxnet"
    XGBOOST = "xgboost"


def is_framework_version_supported(framework_type: FRAMEWORK) -> bool:
    """Return whether a framework is installed: hooks work with every version that Leadline captures."""
    try:
        version(framework_type.value)
    except PackageNotFoundError:
        return False
    return True


def is_s3(path: str) -> tuple[bool, str | None, str | None]:
    """Return whether a path is an S3 address, with its bucket and key."""
    parts = urlsplit(str(path))
    if parts.scheme.lower() != "s3":
        return False, None, None
    return True, parts.netloc, parts.path.removeprefix("/")


def ensure_dir(file_path: str, is_file: bool = True) -> None:
    """Create the folder of a file, or with ``is_file=False`` the folder itself."""
    folder = os.path.dirname(file_path) if is_file else file_path
    if folder:
        os.makedirs(folder, exist_ok=True)


def remove_file_if_exists(file_path: str) -> None:
    """Delete a file; nothing if there is none."""
    if os.path.exists(file_path):
        os.remove(file_path)


def is_first_process(path: str, is_dir: bool = True) -> bool:
    """Return whether this process is the first to claim a folder, by a file in it; always of an address in S3."""
    if is_s3(path)[0]:
        return True
    folder = path if is_dir else os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    try:
        os.close(os.open(os.path.join(folder, CLAIM_FILENAME), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def remove_claim_file(path: str) -> None:
    """Delete the file by which a process has claimed a folder."""
    remove_file_if_exists(os.path.join(path, CLAIM_FILENAME))


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


def validate_custom_tensor_value(
    tensor_value: Any, make_numpy_fn: Callable[[Any], npt.NDArray[Any]] = make_numpy_array
) -> npt.NDArray[Any]:
    """Return a value that is given to ``save_tensor`` as an array.

    Raises:
        SMDebugTypeError: It cannot be one.
    """
    return make_numpy_fn(tensor_value)


def size_and_shape(t: Any) -> tuple[int, tuple[int, ...]]:
    """Return the bytes and the shape of an array or a number."""
    values = np.asarray(t)
    return values.nbytes, values.shape


def flatten(lis: Iterable[Any]) -> list[Any]:
    """Return the elements of nested lists."""
    found: list[Any] = []
    for entry in lis:
        found += flatten(entry) if isinstance(entry, (list, tuple, set)) else [entry]
    return found


def split(comma_separated_string: str) -> list[str]:
    """Return the parts of a text between commas, without spaces around them."""
    return [part.strip() for part in comma_separated_string.split(",")]


def merge_two_dicts(x: dict[Any, Any], y: dict[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both; those of the second where both have one."""
    return {**x, **y}


def match_inc(tname: str, include: Iterable[str]) -> bool:
    """Return whether a name contains a match of any regular expression."""
    return any(re.search(pattern, tname) for pattern in include)


def index(sorted_list: list[Any], elem: Any) -> int:
    """Return the place of an element in a sorted list.

    Raises:
        ValueError: It is not in the list.
    """
    return sorted_list.index(elem)


def step_in_range(range_steps: tuple[int | None, int | None] | None, step: int) -> bool:
    """Return whether a step is in a range, whose end is exclusive; None for no limit."""
    start, end = range_steps or (None, None)
    return (start is None or step >= start) and (end is None or step < end)


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


def get_path_to_events_directory(path: str) -> str:
    """Return the folder of the event files of a trial."""
    return os.path.join(path, _EVENTS)


def get_worker_name_from_collection_file(filename: str) -> str:
    """Return the worker of a collections file.

    Raises:
        ValueError: The name is that of no such file.
    """
    found = _COLLECTIONS_FILE.fullmatch(os.path.basename(filename))
    if found is None:
        raise ValueError(f"{filename}: the name of a collections file is WORKER_collections.json")
    return _worker(found[1])


def parse_worker_name_from_file(filename: str) -> str:
    """Return the worker of an index file or event file.

    Raises:
        IndexReaderException: The name is that of no such file.
    """
    found = _STEP_FILE.fullmatch(os.path.basename(filename))
    if found is None:
        raise IndexReaderException(f"{filename}: the name of such a file is STEP_WORKER.json or STEP_WORKER.tfevents")
    return _worker(found[1])


def _worker(name: str) -> str:
    """Return the worker of a part of a file name, which for TensorFlow is a device."""
    return deserialize_tf_device(name) if name.startswith("_job-") else name


def serialize_tf_device(device: str) -> str:
    """Return the name of a device of TensorFlow as in names of files."""
    return device.replace("/", "_").replace(":", "-")


def deserialize_tf_device(device_name: str) -> str:
    """Return the name of a device of TensorFlow from that in a name of a file."""
    return device_name.replace("_", "/").replace("-", ":")
