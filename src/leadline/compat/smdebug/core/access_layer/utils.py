"""Whether a training has ended, in smdebug's interface."""

from __future__ import annotations

import os
from typing import Final

from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.run_state import read_status

END_FILE: Final = "training_job_end.ts"
"""The file that smdebug writes into a trial at the end of the training."""


def has_training_ended(trial_path: str | os.PathLike[str]) -> bool:
    """Return whether a trial or a run is at a path, and nothing more will be saved there."""
    path = os.fspath(trial_path)
    if os.path.exists(os.path.join(path, END_FILE)):
        return True
    return os.path.exists(os.path.join(path, layout.MANIFEST)) and read_status(path).status in JOB_ENDED
