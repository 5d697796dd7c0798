"""The queue of training jobs: starts job processes in free slots, and follows them by their job folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from leadline.process.interpreter import own_command, own_environment
from leadline.records.manifest import Manifest
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.serve.rule_status import current_rules
from leadline.serve.state_file import StateFile
from leadline.serve.training_job import PENDING, JobProgress, StatusTransition, TrainingJob
from leadline.store.node_lock import acquire_lock, release_lock

STARTING: Final = "Starting the training job"
_LOST: Final = "InternalServerError: the process of the job has ended unexpectedly; its log may tell why"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server is started with."""

    folder: str
    """Contains the state file, the job folders and the runs."""
    slots: int
    """How many jobs run at a time."""
    region: str
    account: str
    targets: dict[str, str]
    """The URLs of Apprise for the actions ``email`` and ``sms``, with ``{address}`` for the recipient."""
    ray: dict[str, float] | None = None
    """What Ray reserves for each instance of a job, such as ``num_gpus``; None: jobs run on this machine."""

    def arn(self, kind: str, name: str) -> str:
        """Return the ARN of a resource."""
        return f"arn:aws:sagemaker:{self.region}:{self.account}:{kind}/{name}"


class JobQueue:
    """All training jobs of a server, the oldest first.

    **Survives** - a job process has its own session and is known by the lock of its job folder, so that jobs continue
    without the server, and another server finds them.

    **Once** - the job process inherits the lock from the server and writes ``progress.json`` before anything else. A
    job without either was never started.

    Args:
        clock: The time in ns.
        on_change: Called with the state of a job before a change, None for a new job, and the one after it.
    """

    def __init__(
        self,
        state: StateFile,
        settings: ServerSettings,
        clock: Callable[[], int] = time.time_ns,
        on_change: Callable[[TrainingJob | None, TrainingJob], None] = lambda before, job: None,
    ) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        jobs = sorted(state.load(), key=lambda job: (job.created_ns, job.name))
        self._jobs = {job.name: job for job in jobs}
        self._processes: list[subprocess.Popen[bytes]] = []
        """Those that this server has started and not reaped yet."""

    @property
    def settings(self) -> ServerSettings:
        return self._settings

    def jobs(self) -> list[TrainingJob]:
        """Return all jobs, the oldest first."""
        return list(self._jobs.values())

    def find(self, name: str) -> TrainingJob | None:
        """Return a job."""
        return self._jobs.get(name)

    def folder(self, job: TrainingJob) -> JobFolder:
        """Return the folder of a job."""
        return JobFolder(self._settings.folder, job.name)

    def add(self, job: TrainingJob, manifest: Manifest) -> None:
        """Append a job to the queue.

        Args:
            manifest: That of its run, resolved from the request.
        """
        self.write_specification(job, manifest)
        self.change(job)

    def write_specification(self, job: TrainingJob, manifest: Manifest) -> None:
        """Write what the job process reads before it starts the training."""
        settings = self._settings
        arn = settings.arn("training-job", job.name)
        specification = JobSpecification(
            job.name, arn, settings.region, job.request, manifest, settings.targets, settings.ray
        )
        self.folder(job).write_specification(specification)

    def change(self, job: TrainingJob) -> None:
        """Record another state of a job."""
        before = self._jobs.get(job.name)
        if before != job:
            job = replace(job, modified_ns=self._clock())
            self._state.save(job)
            self._jobs[job.name] = job
            self._on_change(before, job)

    def stop(self, job: TrainingJob) -> None:
        """Stop a job that has not ended: at once if it waits in the queue, otherwise by its process."""
        if job.is_queued:
            transition = StatusTransition("Stopped", self._clock(), "Training job stopped before it was started")
            job = replace(job, status="Stopped", transitions=(*job.transitions, transition))
            self.change(replace(job, rules=current_rules(job, self.folder(job), self._clock())))
        else:
            self.folder(job).request_stop()
            self.change(replace(job, status="Stopping"))

    def delete(self, job: TrainingJob) -> None:
        """Delete a job that has ended, with its folder and its run.

        Raises:
            OSError: A file could not be deleted; the job remains.
        """
        folder = self.folder(job)
        for path in filter(os.path.exists, (folder.run, folder.path)):
            shutil.rmtree(path)
        self._state.delete(job.name)
        del self._jobs[job.name]

    def advance(self) -> None:
        """Record what became of the running jobs, and start as many of the waiting ones as there are free slots."""
        self._processes = [process for process in self._processes if process.poll() is None]
        for job in self.jobs():
            if not job.has_ended:
                self._follow(job)
        free = self._settings.slots - sum(not job.has_ended and not job.is_queued for job in self.jobs())
        for job in [job for job in self.jobs() if job.is_queued][: max(free, 0)]:
            self._start(job)

    def _follow(self, job: TrainingJob) -> None:
        if job.is_queued and self.folder(job).progress() is None:
            return
        is_running = self._is_running(job)  # before the progress, which is final when the process has ended
        progress = self.folder(job).progress() or JobProgress(job.transitions[1:])
        if not is_running and progress.status == "InProgress":
            transition = StatusTransition("Failed", self._clock(), "Training job failed")
            progress = JobProgress((*progress.transitions, transition), "Failed", _LOST)
        status = progress.status if progress.status != "InProgress" else job.status
        followed = replace(
            job,
            transitions=(job.transitions[0], *progress.transitions),
            status=status,
            failure=progress.failure,
        )
        self.change(replace(followed, rules=current_rules(followed, self.folder(job), self._clock())))

    def _is_running(self, job: TrainingJob) -> bool:
        path = self.folder(job).lock
        lock = acquire_lock(path)
        if lock is None:
            return True
        release_lock(lock, path)
        return False

    def _start(self, job: TrainingJob) -> None:
        folder = self.folder(job)
        lock = acquire_lock(folder.lock)
        if lock is None:
            return  # a server that was killed has just started it
        try:
            with open(folder.log, "ab") as log:
                process = subprocess.Popen(
                    own_command("leadline.serve", folder.path),
                    env=own_environment(),
                    cwd=folder.path,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock,),
                    start_new_session=True,
                )
        finally:
            os.close(lock)
        self._processes.append(process)
        self.change(replace(job, transitions=(*job.transitions, StatusTransition("Starting", self._clock(), STARTING))))


def created(now_ns: int) -> StatusTransition:
    """Return the first transition of a job."""
    return StatusTransition(PENDING, now_ns, "Waiting for a free slot")
