"""The state of the server in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Final

from leadline.errors import ConfigurationError
from leadline.serve.training_job import TrainingJob
from leadline.store.node_lock import acquire_lock

_FORMAT: Final = 1
_TABLE: Final = "CREATE TABLE IF NOT EXISTS training_jobs (name TEXT PRIMARY KEY, document TEXT NOT NULL)"


class StateFile:
    """All training jobs; one server at a time uses the file.

    **Durable** - ``save`` and ``delete`` return when the change is on disk.

    Raises:
        ConfigurationError: Another server uses the file, or it is none of this version of Leadline.
    """

    def __init__(self, path: str) -> None:
        lock = acquire_lock(f"{path}.lock")
        if lock is None:
            raise ConfigurationError(f"another leadline serve uses {path}; choose another --folder")
        self._lock = lock
        is_new = not os.path.exists(path)
        if is_new:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            found = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if found != (0 if is_new else _FORMAT):
                raise ConfigurationError(f"{path} is the state of another version of leadline serve")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(_TABLE)
            self._connection.execute(f"PRAGMA user_version = {_FORMAT}")
        except sqlite3.DatabaseError as error:
            raise ConfigurationError(f"{path} cannot be used as the state of leadline serve: {error}") from None

    def load(self) -> list[TrainingJob]:
        """Return all jobs."""
        rows = self._connection.execute("SELECT document FROM training_jobs").fetchall()
        return [TrainingJob.from_dict(json.loads(document)) for (document,) in rows]

    def save(self, job: TrainingJob) -> None:
        """Insert or replace a job."""
        document = json.dumps(job.to_dict())
        self._connection.execute("INSERT OR REPLACE INTO training_jobs VALUES (?, ?)", (job.name, document))

    def delete(self, name: str) -> None:
        """Delete a job."""
        self._connection.execute("DELETE FROM training_jobs WHERE name = ?", (name,))

    def close(self) -> None:
        """Close the file, and let another server use it."""
        self._connection.close()
        os.close(self._lock)
