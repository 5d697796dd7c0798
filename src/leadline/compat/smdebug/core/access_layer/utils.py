"""Whether a training has ended, in smdebug's interface."""

from __future__ import annotations

import os
import time
from typing import Final

from leadline.compat.smdebug.core.sagemaker_utils import is_sagemaker_job
from leadline.compat.smdebug.core.stored_out_dir import is_training_stored
from leadline.compat.smdebug.core.trial_files import has_file, write_file
from leadline.compat.smdebug.exceptions import SMDebugRuntimeError
from leadline.config.store_uri import is_uri
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.run_state import read_status

END_FILE: Final = "training_job_end.ts"
"""The file that smdebug writes into a trial at the end of the training."""
ENV_RULE_STOP_SIGNAL_FILENAME: Final = "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE"
"""The environment variable with the name of the file that requests the stop of a rule."""
DEFAULT_GRACETIME_FOR_RULE_STOP_SEC: Final = 60
_GRACE: Final = "rule_stop_grace_time_secs"


def has_training_ended(trial_prefix: str | os.PathLike[str]) -> bool:
    """Return whether a trial or a run is at a path or in S3, and nothing more will be saved there.

    Raises:
        SMDebugRuntimeError: The store cannot be read.
    """
    path = os.fspath(trial_prefix)
    if has_file(os.path.join(path, END_FILE)):
        return True
    if is_uri(path):
        return is_training_stored(path)
    return os.path.exists(os.path.join(path, layout.MANIFEST)) and read_status(path).status in JOB_ENDED


def training_has_ended(trial_prefix: str | os.PathLike[str]) -> None:
    """Mark the end of the training in a trial; nothing in a job of SageMaker, which does it itself.

    Raises:
        SMDebugRuntimeError: It is marked already.
    """
    if is_sagemaker_job():
        return
    write_file(os.path.join(check_dir_exists(trial_prefix), END_FILE), b"")


def check_dir_exists(path: str | os.PathLike[str]) -> str:
    """Return the path of a trial, unless an earlier training was saved there.

    Raises:
        SMDebugRuntimeError: One was.
    """
    text = os.path.expanduser(os.fspath(path))
    if has_training_ended(text):
        raise SMDebugRuntimeError(f"{text}: an earlier training was saved there; choose another folder")
    return text


def is_rule_signalled_gracetime_passed(trial_prefix: str | os.PathLike[str]) -> bool:
    """Return whether the stop of a rule was requested and the grace period is over.

    A file in the trial, which ``$SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE`` names, holds the time of the request in seconds
    since the epoch; without a number in it, the time has passed. ``$rule_stop_grace_time_secs`` is by default 60.
    """
    name = os.environ.get(ENV_RULE_STOP_SIGNAL_FILENAME)
    path = os.path.join(os.fspath(trial_prefix), name) if name else ""
    if not path or not os.path.exists(path):
        return False
    try:
        with open(path, encoding="utf-8") as file:
            asked = int(file.read().strip())
        grace = int(os.environ.get(_GRACE, DEFAULT_GRACETIME_FOR_RULE_STOP_SEC))
    except ValueError:
        return True
    return time.time() - asked > grace
