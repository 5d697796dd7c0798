"""Creation of run directories."""

from __future__ import annotations

import os

from leadline.errors import ConfigurationError, RunExistsError
from leadline.records.documents import RunStatus, Transition
from leadline.records.manifest import Manifest
from leadline.store import layout
from leadline.store.documents import make_folder, write_document


def create_run(path: str, manifest: Manifest, *, status: str = "Starting") -> None:
    """Create a run directory with its manifest and initial status.

    Raises:
        RunExistsError: The path already exists.
        ConfigurationError: The run cannot be written at that path.
    """
    try:
        make_folder(os.path.dirname(path))
        os.mkdir(path, 0o700)
        for folder in layout.FOLDERS:
            make_folder(os.path.join(path, folder))
        write_document(os.path.join(path, layout.MANIFEST), manifest.to_dict())
        write_status(path, status, manifest.started_ns)
    except FileExistsError:
        raise RunExistsError(f"a run already exists at {path}; choose another name or delete it") from None
    except OSError as error:
        raise ConfigurationError(
            f"the run cannot be written at {path}: {error.strerror}; choose another folder with --out"
        ) from None


def join_run(path: str, manifest: Manifest) -> None:
    """Create a run that other processes may create at the same time; the first manifest wins.

    Raises:
        ConfigurationError: The run cannot be written at that path.
    """
    draft = os.path.join(path, f"{layout.MANIFEST}.{manifest.started_ns}.{os.getpid()}.draft")
    try:
        for folder in layout.FOLDERS:
            make_folder(os.path.join(path, folder))
        write_document(draft, manifest.to_dict())
        try:
            os.link(draft, os.path.join(path, layout.MANIFEST))  # fails if a manifest exists, from any node
            write_status(path, "Starting", manifest.started_ns)
        finally:
            os.unlink(draft)
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigurationError(f"the run cannot be written at {path}: {error.strerror}") from None


def write_status(path: str, status: str, time_ns: int, *, ended_ns: int | None = None) -> None:
    """Write the status of a run without an agent."""
    document = RunStatus(status, (Transition(status, time_ns),), job_pid=os.getpid(), ended_ns=ended_ns)
    write_document(os.path.join(path, layout.STATUS), document)
