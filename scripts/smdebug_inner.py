"""Inner parts of smdebug that only its own tests import: scripts/smdebug-conformance has them, Leadline has not."""

from __future__ import annotations

import os
import re
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final

from leadline.compat.smdebug.core import utils
from leadline.compat.smdebug.core.hook_run import check_out_dir
from leadline.compat.smdebug.exceptions import IndexReaderException

CLAIM: Final = "claim.smd"
"""The file that the first of several processes creates in a trial."""
STEP_FILE: Final = re.compile(r"\d+_(.+)\.(?:json|tfevents)")
COLLECTIONS_FILE: Final = re.compile(r"(.+)_collections\.json")


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
    if utils.is_s3(path)[0]:
        return True
    folder = path if is_dir else os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    try:
        os.close(os.open(os.path.join(folder, CLAIM), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def get_worker_name_from_collection_file(filename: str) -> str:
    """Return the worker of a collections file.

    Raises:
        ValueError: The name is that of no such file.
    """
    found = COLLECTIONS_FILE.fullmatch(os.path.basename(filename))
    if found is None:
        raise ValueError(f"{filename}: the name of a collections file is WORKER_collections.json")
    return _worker(found[1])


def parse_worker_name_from_file(filename: str) -> str:
    """Return the worker of an index file or event file.

    Raises:
        IndexReaderException: The name is that of no such file.
    """
    found = STEP_FILE.fullmatch(os.path.basename(filename))
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


def verify_and_get_out_dir(out_dir: str | os.PathLike[str] | None) -> str:
    """Return the folder of a hook; see ``check_out_dir`` for its errors."""
    return check_out_dir(out_dir)


OF_UTILS: Final[tuple[Any, ...]] = (
    FRAMEWORK,
    is_framework_version_supported,
    ensure_dir,
    remove_file_if_exists,
    is_first_process,
    get_worker_name_from_collection_file,
    parse_worker_name_from_file,
    serialize_tf_device,
    deserialize_tf_device,
)


def place(modules: dict[str, ModuleType]) -> None:
    """Put the parts where smdebug's tests import them from.

    Args:
        modules: ``sys.modules``.
    """
    for part in OF_UTILS:
        setattr(utils, part.__name__, part)
    hook_utils = modules["smdebug.core.hook_utils"] = ModuleType("smdebug.core.hook_utils")
    hook_utils.verify_and_get_out_dir = verify_and_get_out_dir  # type: ignore[attr-defined]
