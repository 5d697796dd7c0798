"""A fake ``/proc``."""

from __future__ import annotations

import shutil
from pathlib import Path


class FakeProc:
    """Process files as a kernel would write them."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self._folder = folder

    def put(self, pid: int, parent: int, **changes: object) -> None:
        """Add or change a process."""
        defaults = {"name": "python", "state": "S", "session": 1, "ticks": 0, "threads": 1, "start": pid, "rss": 10}
        values = defaults | changes
        fields = ["0"] * 50
        fields[0], fields[1], fields[3] = str(values["state"]), str(parent), str(values["session"])
        fields[11], fields[17], fields[19], fields[21] = (
            str(values[key]) for key in ("ticks", "threads", "start", "rss")
        )
        folder = self._folder / str(pid)
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "stat").write_text(f"{pid} ({values['name']}) {' '.join(fields)}\n")

    def drop(self, pid: int) -> None:
        """Remove a process."""
        shutil.rmtree(self._folder / str(pid))
