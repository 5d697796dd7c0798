"""The server's memory: many threads that each used much do not keep much."""

from __future__ import annotations

import re
import subprocess
import sys

SCRIPT = """
import sys, threading
from pathlib import Path
if sys.argv[1] == "shared":
    from leadline.dashboard.memory import share_arenas
    share_arenas()
barrier = threading.Barrier(16)
def use():
    kept = [bytes(60_000) for _ in range(200)]
    barrier.wait()
    kept.clear()
    barrier.wait()
threads = [threading.Thread(target=use) for _ in range(16)]
[each.start() for each in threads]
[each.join() for each in threads]
print(Path("/proc/self/maps").read_text().count("---p"))
"""


def arenas(how: str) -> int:
    """How many reserved regions of memory a process is left with."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True)
    return int(re.sub(r"\D", "", done.stdout))


def test_threads_share_arenas() -> None:
    assert arenas("shared") + 4 < arenas("each its own")
