"""The files of a training job on this machine."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import Final

from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.serve.training_job import CustomRuleResult, JobProgress
from leadline.store.documents import make_folder, read_document, write_document

FIRST_HOST: Final = "algo-1"
_JOBS: Final = "jobs"
_RUNS: Final = "runs"
_SPECIFICATION: Final = "job.json"
_PROGRESS: Final = "progress.json"
_LOCK: Final = "job.lock"
_STOP: Final = "stop"
_LOG: Final = "job.log"
_CONTAINER: Final = "ml"
_CUSTOM_RULES: Final = "rules"
_JOINED: Final = "joined"
PRIVATE_UMASK: Final = 0o077
"""The mask of the server and of all processes of a job: what they write can be read by their user only."""


@dataclass(frozen=True, slots=True)
class JobSpecification(StrictDocument):
    """``job.json``: what the job process is to do."""

    name: str
    arn: str
    region: str
    request: JsonObject
    """What CreateTrainingJob was given."""
    manifest: Manifest
    """That of the run, resolved from the request: without command, time and versions."""
    targets: dict[str, str]
    """See ``ServerSettings``."""
    ray: dict[str, float] | None = None
    """What Ray reserves for each instance; None: the job runs on this machine."""


class JobFolder:
    """The folder of one job, which only its user can read.

    Args:
        root: The folder of the server.
        name: The name of the job.
    """

    def __init__(self, root: str, name: str) -> None:
        self.path = os.path.join(root, _JOBS, name)
        self.runs = os.path.join(root, _RUNS)
        """The runs directory of all jobs of the server."""
        self.run = os.path.join(self.runs, name)
        self.lock = os.path.join(self.path, _LOCK)
        """Held by the job process as long as it lives."""
        self.log = os.path.join(self.path, _LOG)
        """Standard output and error of the training."""
        self.joined = os.path.join(self.path, _JOINED)
        """A file for each host that has joined the run, if there are several."""
        self.container = self.container_of(FIRST_HOST)

    def container_of(self, host: str) -> str:
        """Return the path of what is ``/opt/ml`` in the container of a host."""
        return os.path.join(self.path, _CONTAINER if host == FIRST_HOST else f"{_CONTAINER}-{host}")

    @classmethod
    def at(cls, path: str) -> JobFolder:
        """Return the job folder with a path."""
        jobs, name = os.path.split(path)
        return cls(os.path.dirname(jobs), name)

    def write_specification(self, specification: JobSpecification) -> None:
        """Write what the job process is to do; the first time, this creates the folder.

        Raises:
            OSError: It cannot be written.
        """
        make_folder(self.path)
        write_document(os.path.join(self.path, _SPECIFICATION), specification)

    def specification(self) -> JobSpecification:
        """Return what the job process is to do."""
        return JobSpecification.from_dict(read_document(os.path.join(self.path, _SPECIFICATION)))

    def progress(self) -> JobProgress | None:
        """Return how far the job process is; None: it has not begun."""
        document = read_document(os.path.join(self.path, _PROGRESS))
        return None if document is None else JobProgress.from_dict(document)

    def write_progress(self, progress: JobProgress) -> None:
        """Record how far the job process is."""
        write_document(os.path.join(self.path, _PROGRESS), progress)

    def request_stop(self) -> None:
        """Ask the job process to stop the job."""
        write_document(os.path.join(self.path, _STOP), {})

    def is_stop_requested(self) -> bool:
        """Return whether the job is to be stopped."""
        return os.path.exists(os.path.join(self.path, _STOP))

    def rule_source(self, name: str) -> str:
        """Return the path of the file with the class of a custom rule."""
        return os.path.join(self.path, _CUSTOM_RULES, f"{name}.py")

    def rule_log(self, name: str) -> str:
        """Return the path of the standard output and error of a custom rule."""
        return os.path.join(self.path, _CUSTOM_RULES, f"{name}.log")

    def logs(self) -> list[str]:
        """Return the paths of the logs of the training and of the custom rules, as far as there are any."""
        return [self.log, *glob.glob(os.path.join(glob.escape(self.path), _CUSTOM_RULES, "*.log"))]

    def rule_result(self, name: str) -> CustomRuleResult | None:
        """Return the result of a custom rule; None: it has none yet."""
        document = read_document(os.path.join(self.path, _CUSTOM_RULES, f"{name}.json"))
        return None if document is None else CustomRuleResult.from_dict(document)

    def write_rule_result(self, name: str, result: CustomRuleResult) -> None:
        """Record the result of a custom rule."""
        write_document(os.path.join(self.path, _CUSTOM_RULES, f"{name}.json"), result)

    def request_rule_stop(self, name: str) -> None:
        """Ask the job process to stop the evaluation of a custom rule."""
        write_document(os.path.join(self.path, _CUSTOM_RULES, f"{name}.stop"), {})

    def is_rule_stop_requested(self, name: str) -> bool:
        """Return whether the evaluation of a custom rule is to be stopped."""
        return os.path.exists(os.path.join(self.path, _CUSTOM_RULES, f"{name}.stop"))

    def in_container(self, *names: str, host: str = FIRST_HOST) -> str:
        """Return the path of a file or folder that is below ``/opt/ml`` in the container of a host."""
        return os.path.join(self.container_of(host), *names)
