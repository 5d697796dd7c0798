"""A made-up ``/proc``."""

from __future__ import annotations

import shutil
from pathlib import Path


class FakeProc:
    """Processes as files; what a kernel would write."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self._folder = folder

    def put(self, pid: int, parent: int, **changes: object) -> None:
        """A process appears, or changes."""
        known = {"name": "python", "state": "S", "session": 1, "ticks": 0, "threads": 1, "start": pid, "rss": 10}
        facts = known | changes
        fields = ["0"] * 50
        fields[0], fields[1], fields[3] = str(facts["state"]), str(parent), str(facts["session"])
        fields[11], fields[17], fields[19], fields[21] = (
            str(facts[key]) for key in ("ticks", "threads", "start", "rss")
        )
        place = self._folder / str(pid)
        place.mkdir(exist_ok=True, parents=True)
        (place / "stat").write_text(f"{pid} ({facts['name']}) {' '.join(fields)}\n")

    def drop(self, pid: int) -> None:
        """A process is gone."""
        shutil.rmtree(self._folder / str(pid))
