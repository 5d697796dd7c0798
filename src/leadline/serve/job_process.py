"""The process of one training job: fetches its input, runs it under ``leadline run``, and uploads its output."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import leadline
from leadline.config.secrets import scrub
from leadline.errors import ConfigurationError, LeadlineError
from leadline.serve import artifacts, container
from leadline.serve.algorithms.images import is_user_error
from leadline.serve.custom_rules import CustomRules
from leadline.serve.default_report import render_default_report
from leadline.serve.engine import JobEngine, LocalJobEngine, end_with_parent
from leadline.serve.instances import Instances, share_channels
from leadline.serve.job_folder import PRIVATE_UMASK, JobFolder
from leadline.serve.log_times import LogTimes
from leadline.serve.requirements import InstallationError, Packages
from leadline.serve.run_configuration import other_actions, unselected_collections
from leadline.serve.s3_files import S3Files
from leadline.serve.sampling import PROFILER, is_disabled, switch_off, was_changed
from leadline.serve.sdk_drivers import place_drivers
from leadline.serve.training_job import JobProgress, StatusTransition
from leadline.serve.trial_upload import TrialUpload
from leadline.store import layout
from leadline.store.documents import make_folder
from leadline.store.run_state import read_status, read_workers

_POLL_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 120.0
"""How long after SIGTERM a training that still runs is killed, as on SageMaker."""
_FAILURE_SECONDS: Final = 5.0
"""How long after the failure of an instance the others are ended: a rule stops them one after the other."""
_MAX_FAILURE: Final = 1024
_MESSAGES: Final = {
    "Starting": "Starting the training job",
    "Downloading": "Downloading input data and source",
    "Training": "Training in progress",
    "Uploading": "Uploading generated training model and output",
    "Stopping": "Stopping the training job",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
}
_OWN_LINE: Final = "leadline "
_TRACEBACK: Final = "Traceback (most recent call last):"


class JobProcess:
    """One job from its start to its end; its state is ``progress.json`` in the job folder.

    Args:
        path: The job folder.
    """

    def __init__(self, path: str) -> None:
        self._folder = JobFolder.at(path)
        self._progress, self._training_seconds = JobProgress(()), 0.0
        self._enter("Starting")
        self._specification = self._folder.specification()
        self._request = self._specification.request
        self._s3 = S3Files(self._specification.region)
        self._hosts = container.hosts(self._request)
        self._custom_rules = CustomRules(self._folder, self._request, end_with_parent)
        self._has_run = False
        self._trial = TrialUpload(self._folder, self._specification, self._s3, _log)

    def run(self) -> None:
        """Run the job; how it ended is recorded in the job folder."""
        with LogTimes(self._folder.logs):
            end, failure = self._run()
        self._finish(end, failure)
        try:
            render_default_report(self._folder, self._specification, self._s3, self._training_seconds)
        except (LeadlineError, OSError, subprocess.TimeoutExpired) as error:
            _log(f"the job has no report: {error}")

    def _run(self) -> tuple[str, str]:
        """Run the job; return how it ended, and why if it failed."""
        end, failure = "Failed", ""
        try:
            environments = {host: container.prepare(self._folder, self._specification, host) for host in self._hosts}
            self._enter("Downloading")
            self._download()
            python = Packages(self._folder, self._folder.is_stop_requested).install()
            end, failure = self._train(environments, python)
            if end == "Stopped" and not self._has_entered("Training"):
                return end, ""
            self._enter("Uploading")
            self._trial.finish()
            artifacts.upload(self._folder, self._folder.specification(), self._s3, has_model=end != "Failed")
        except InstallationError as error:
            end, failure = "Failed", f"AlgorithmError: {error}"
            _log(failure)
        except (LeadlineError, OSError, tarfile.TarError) as error:
            end, failure = "Failed", failure or f"ClientError: {error}"
            _log(failure)
        return end, failure

    def _enter(self, status: str) -> None:
        transition = StatusTransition(status, time.time_ns(), _MESSAGES[status])
        self._progress = JobProgress((*self._progress.transitions, transition))
        self._folder.write_progress(self._progress)

    def _has_entered(self, status: str) -> bool:
        return any(transition.status == status for transition in self._progress.transitions)

    def _finish(self, end: str, failure: str = "") -> None:
        transition = StatusTransition(end, time.time_ns(), _MESSAGES[end])
        status = "Stopped" if end == "MaxRuntimeExceeded" else end
        transitions = (*self._progress.transitions, transition)
        self._folder.write_progress(JobProgress(transitions, status, scrub(failure)[:_MAX_FAILURE]))

    def _download(self) -> None:
        """Fetch source, channels and checkpoints.

        Raises:
            LeadlineError, OSError, tarfile.TarError: Something is not there, or cannot be unpacked.
        """
        source = container.hyperparameters(self._request).get(container.SOURCE)
        if source:
            path = os.path.join(self._folder.path, "source.tar.gz")
            self._s3.download(str(source), path)
            with tarfile.open(path) as archive:
                archive.extractall(self._folder.in_container("code"), filter=private_member)
            os.unlink(path)
        for channel in self._request.get("InputDataConfig", ()):
            folder = self._folder.in_container("input", "data", channel["ChannelName"])
            make_folder(folder)
            self._s3.download_prefix(channel["DataSource"]["S3DataSource"]["S3Uri"], folder)
        share_channels(self._folder, self._request, self._hosts)
        place_drivers(self._folder, self._hosts)
        if "CheckpointConfig" in self._request:
            uri = self._request["CheckpointConfig"]["S3Uri"]
            self._s3.download_prefix(uri.rstrip("/") + "/", self._folder.in_container("checkpoints"))

    def _train(self, environments: dict[str, dict[str, str]], python: str) -> tuple[str, str]:
        """Run the training; return how it ended, and why if it failed.

        Raises:
            LeadlineError: The configuration is invalid.
        """
        if self._folder.is_stop_requested():
            return "Stopped", ""
        specification = self._folder.specification()
        self._request = specification.request  # UpdateTrainingJob may have changed it meanwhile
        for action in other_actions(self._request, self._specification.targets):
            _log(f"action {action}: not performed; see leadline serve --help")
        for collection in unselected_collections(self._request):
            _log(f"collection {collection}: it has no include_regex; only what the script adds to it is saved")
        instances = Instances(self._engine(), self._folder, specification, environments, python)
        self._enter("Training")
        self._custom_rules.start()
        self._trial.start()
        began = time.monotonic()
        code, reason = self._wait(instances)
        self._training_seconds = time.monotonic() - began
        self._custom_rules.finish()
        return self._outcome(code, reason)

    def _engine(self) -> JobEngine:
        """Return where the instances run.

        Raises:
            ConfigurationError: There is no Ray cluster.
        """
        if self._specification.ray is None:
            return LocalJobEngine()
        from leadline.serve.ray_engine import RayJobEngine

        try:
            return RayJobEngine(self._specification.name, self._folder.log, self._specification.ray)
        except ConnectionError as error:
            raise ConfigurationError(f"there is no Ray cluster; set RAY_ADDRESS: {error}") from None

    def _wait(self, instances: Instances) -> tuple[int, str]:
        """Wait for the end of the training, and end it when that is requested or its time is over.

        Returns:
            The exit status, and why it was ended: ``Stopped``, ``MaxRuntimeExceeded``, or empty.
        """
        limit = self._request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", float("inf"))
        started, reason, kill_at = time.monotonic(), "", float("inf")
        failed_at: float | None = None
        while (code := instances.poll()) is None:
            now = time.monotonic()
            self._custom_rules.poll()
            self._begin_run()
            if not reason and (self._folder.is_stop_requested() or now - started > limit):
                reason = "MaxRuntimeExceeded" if now - started > limit else "Stopped"
                self._enter("Stopping")
                instances.terminate()
                kill_at = now + _GRACE_SECONDS
            if failed_at is None and instances.has_failed():
                failed_at = now
            if failed_at is not None and now - failed_at > _FAILURE_SECONDS and kill_at == float("inf"):
                instances.terminate()
                kill_at = now + _GRACE_SECONDS
            if now > kill_at:
                instances.kill()
            time.sleep(_POLL_SECONDS)
        return code, reason

    def _begin_run(self) -> None:
        """Let a run that has begun not sample the machine if the profiler is disabled; both may have changed since."""
        if self._has_run or not layout.is_run(self._folder.run):
            return
        self._has_run = True
        if not is_disabled(self._folder.specification().request):
            return
        try:
            run = leadline.open_run(self._folder.run)
            if not was_changed(run):
                switch_off(run, PROFILER)
        except (LeadlineError, OSError) as error:
            _log(f"the machine is sampled, though the profiler is disabled: {error}")

    def _outcome(self, code: int, reason: str) -> tuple[str, str]:
        if reason:
            return reason, ""
        run = self._folder.run
        if layout.is_run(run) and read_status(run).status == "Stopped":
            return "Stopped", ""
        if code == 0:
            return "Completed", ""
        kind = "ClientError" if is_user_error(self._request, code) else "AlgorithmError"
        return "Failed", f"{kind}: {failure_reason(self._folder, self._hosts)}, exit code: {code}"


def private_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Return a member of an archive as it is unpacked: below the folder, and for its user only.

    Raises:
        tarfile.FilterError: It leads out of the folder, or is a device.
    """
    safe = tarfile.data_filter(member, folder)
    return safe if safe.mode is None else safe.replace(mode=safe.mode & ~PRIVATE_UMASK, deep=False)


def failure_reason(folder: JobFolder, hosts: Iterable[str]) -> str:
    """Return what the training wrote to ``output/failure``, its exception, or the last line of its log."""
    for path in [folder.in_container("output", "failure", host=host) for host in hosts]:
        with suppress(OSError), open(path, errors="replace") as file:
            if text := file.read(_MAX_FAILURE).strip():
                return text
    errors = [worker.error for worker in read_workers(folder.run).values() if worker.error]
    if errors:
        return errors[0]
    with open(folder.log, errors="replace") as file:
        return last_error(file.read()) or "no output"


def last_error(log: str) -> str:
    """Return the exception of the last traceback in a log; without one, the last line that is not Leadline's."""
    _, marker, rest = log.rpartition(_TRACEBACK)
    lines = [line for line in rest.splitlines() if line[:1].strip() and not line.startswith(_OWN_LINE)]
    return "" if not lines else lines[0 if marker else -1]


def _log(line: str) -> None:
    """Write a line to the log of the job, which is the standard error of this process."""
    sys.stderr.write(f"leadline serve: {scrub(line)}\n")
    sys.stderr.flush()
