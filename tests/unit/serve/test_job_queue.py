"""The queue of jobs, with job folders as job processes leave them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_caller import CREATE, MANIFEST, server_settings

from leadline.errors import ConfigurationError
from leadline.serve.job_queue import JobQueue, created
from leadline.serve.state_file import StateFile
from leadline.serve.training_job import JobProgress, RuleEvaluation, StatusTransition, TrainingJob
from leadline.store.node_lock import acquire_lock


@contextmanager
def queue_of(folder: Path) -> Iterator[JobQueue]:
    """A server with the state of a folder."""
    state = StateFile(str(folder / "state.sqlite"))
    try:
        yield JobQueue(state, server_settings(folder))
    finally:
        state.close()


def new_job(name: str, now_ns: int = 1) -> TrainingJob:
    rules = (RuleEvaluation("Nan", "ExplodingTensor", f"{name}-Nan-0", False, False, now_ns),)
    return TrainingJob(name, CREATE, (created(now_ns),), now_ns, rules=rules)


def progress(*statuses: str, status: str = "InProgress", failure: str = "") -> JobProgress:
    transitions = tuple(StatusTransition(name, 10 + number, name) for number, name in enumerate(statuses))
    return JobProgress(transitions, status, failure)


def test_jobs_are_there_after_a_restart_in_their_order(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        for number, name in enumerate(("c", "a", "b")):
            queue.add(new_job(name, number), MANIFEST)
        before = queue.jobs()
    with queue_of(tmp_path) as queue:
        assert queue.jobs() == before
        assert [job.name for job in queue.jobs()] == ["c", "a", "b"]
        assert all(job.is_queued for job in queue.jobs())


def test_one_server_at_a_time_uses_a_state_file(tmp_path: Path) -> None:
    with queue_of(tmp_path), pytest.raises(ConfigurationError, match="another leadline serve uses"):
        StateFile(str(tmp_path / "state.sqlite"))


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_another_file_is_not_taken_for_the_state(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="state"):
        StateFile(str(path))
    assert path.read_bytes() == content


def test_a_job_that_a_killed_server_has_started_is_found_running_and_followed_to_its_end(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        queue.add(new_job("job"), MANIFEST)
    with queue_of(tmp_path) as queue:
        folder = queue.folder(queue.jobs()[0])
        lock = acquire_lock(folder.lock)
        assert lock is not None
        folder.write_progress(progress("Starting", "Downloading", "Training"))
        queue.advance()
        (job,) = queue.jobs()
        assert (job.status, job.secondary_status) == ("InProgress", "Training")
        folder.write_progress(progress("Starting", "Training", "Uploading", "Completed", status="Completed"))
        os.close(lock)
        queue.advance()
        (job,) = queue.jobs()
    assert (job.status, job.secondary_status, job.failure) == ("Completed", "Completed", "")
    assert [transition.status for transition in job.transitions] == [
        *("Pending", "Starting", "Training", "Uploading", "Completed")
    ]


def test_a_job_whose_process_was_killed_has_failed_and_does_not_run_again(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        queue.add(new_job("job"), MANIFEST)
        queue.folder(queue.jobs()[0]).write_progress(progress("Starting", "Training"))
        queue.advance()
        queue.advance()
        (job,) = queue.jobs()
    assert (job.status, job.secondary_status) == ("Failed", "Failed")
    assert job.failure.startswith("InternalServerError")
    assert [rule.status for rule in job.rules] == ["Error"]


def test_stopping_a_queued_job_and_a_running_one(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        queue.add(new_job("queued", 1), MANIFEST)
        queue.add(new_job("running", 2), MANIFEST)
        running = queue.folder(queue.jobs()[1])
        lock = acquire_lock(running.lock)
        assert lock is not None
        running.write_progress(progress("Starting", "Training"))
        queue.advance()
        for job in queue.jobs():
            queue.stop(job)
        statuses = {job.name: (job.status, job.secondary_status) for job in queue.jobs()}
        assert statuses == {"queued": ("Stopped", "Stopped"), "running": ("Stopping", "Training")}
        assert [rule.status for rule in queue.jobs()[0].rules] == ["Stopped"]
        assert running.is_stop_requested()
        queue.advance()
        assert queue.jobs()[1].status == "Stopping"
        os.close(lock)


def test_job_folders_are_private(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        queue.add(new_job("job"), MANIFEST)
        folder = queue.folder(queue.jobs()[0])
    assert os.stat(folder.path).st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "state.sqlite").st_mode & 0o777 == 0o600
    assert {os.stat(os.path.join(folder.path, name)).st_mode & 0o077 for name in os.listdir(folder.path)} == {0}


def test_a_deleted_job_leaves_nothing(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        queue.add(new_job("job"), MANIFEST)
        queue.stop(queue.jobs()[0])
        queue.delete(queue.jobs()[0])
    with queue_of(tmp_path) as queue:
        assert queue.jobs() == []
    assert list((tmp_path / "jobs").iterdir()) == []
