"""Where the files of a trial are, in smdebug's interface."""

from __future__ import annotations

import os
import re
from typing import Final

from leadline.trials.folder import EVENTS, INDEX

_STEPS_PER_FOLDER: Final = 1000
_EVENT_FILE: Final = re.compile(r"(\d+)_(.*)\.tfevents")


class TensorFileLocation:
    """The event file of a worker and a global step."""

    def __init__(self, step_num: int, worker_name: str) -> None:
        self.step_num, self.worker_name = int(step_num), worker_name

    def get_step_num_str(self) -> str:
        """Return the step as in names of files."""
        return f"{self.step_num:012d}"

    def get_filename(self) -> str:
        """Return the name of the file."""
        return f"{self.get_step_num_str()}_{self.worker_name}.tfevents"

    def get_file_location(self, trial_dir: str = "") -> str:
        """Return the path of the file; relative to the trial without ``trial_dir``."""
        return os.path.join(trial_dir, EVENTS, self.get_step_num_str(), self.get_filename())

    @classmethod
    def load_filename(cls, s: str, print_error: bool = True) -> TensorFileLocation | None:
        """Return the location of a path; None if it is that of no event file."""
        found = _EVENT_FILE.fullmatch(os.path.basename(s))
        return cls(int(found[1]), found[2]) if found else None


class IndexFileLocationUtils:
    """The index files of a trial."""

    @staticmethod
    def get_index_path(path: str) -> str:
        """Return the folder of the index files of a trial."""
        return os.path.join(path, INDEX)

    @staticmethod
    def get_index_key_for_step(trial_prefix: str, step_num: int, worker_name: str) -> str:
        """Return the path of the index file of a worker and a global step."""
        folder = f"{step_num // _STEPS_PER_FOLDER:09d}"
        return os.path.join(trial_prefix, INDEX, folder, f"{step_num:012d}_{worker_name}.json")

    @staticmethod
    def get_step_from_idx_filename(index_file_name: str) -> int:
        """Return the global step of an index file."""
        return int(os.path.basename(index_file_name).partition("_")[0])

    @staticmethod
    def get_prefix_from_index_file(index_file: str) -> str:
        """Return the trial of an index file."""
        return index_file.rpartition(f"/{INDEX}/")[0]
