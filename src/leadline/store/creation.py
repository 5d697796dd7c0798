"""Making the folder of a new run."""

from __future__ import annotations

import os

from leadline.errors import ConfigurationError, RunExistsError
from leadline.records.manifest import Manifest
from leadline.store import layout
from leadline.store.documents import make_folder, write_document


def create_run(path: str, manifest: Manifest, *, status: str = "Starting") -> None:
    """Make a run's folder with its manifest and first status.

    Raises:
        RunExistsError: Something stands there already.
        ConfigurationError: It cannot be written there.
    """
    try:
        make_folder(os.path.dirname(path))
        os.mkdir(path, 0o700)
        for each in layout.FOLDERS:
            make_folder(os.path.join(path, each))
        write_document(os.path.join(path, layout.MANIFEST), manifest.to_dict())
        write_status(path, status, manifest.started_ns)
    except FileExistsError:
        raise RunExistsError(f"a run stands at {path} already; choose another name, or remove it") from None
    except OSError as error:
        raise ConfigurationError(
            f"the run cannot be written at {path}: {error.strerror}; choose another place with --out"
        ) from None


def join_run(path: str, manifest: Manifest) -> None:
    """Make a run that others may be making at the same time; the manifest that comes first is the run's.

    Raises:
        ConfigurationError: It cannot be written there.
    """
    draft = os.path.join(path, f"{layout.MANIFEST}.{manifest.started_ns}.{os.getpid()}.draft")
    try:
        for each in layout.FOLDERS:
            make_folder(os.path.join(path, each))
        write_document(draft, manifest.to_dict())
        try:
            os.link(draft, os.path.join(path, layout.MANIFEST))  # fails where one stands already, on any node
            write_status(path, "Starting", manifest.started_ns)
        finally:
            os.unlink(draft)
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigurationError(f"the run cannot be written at {path}: {error.strerror}") from None


def write_status(path: str, status: str, time_ns: int, *, ended_ns: int | None = None) -> None:
    """Say what a run that no agent looks after has come to."""
    document = {"status": status, "transitions": [{"status": status, "time_ns": time_ns}], "ended_ns": ended_ns}
    write_document(os.path.join(path, layout.STATUS), {**document, "job_pid": os.getpid(), "agent_pid": None})
