"""Memory of the server after large responses on many threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import ctypes, sys, threading
from pathlib import Path
if sys.argv[1] == "shared":
    from leadline.dashboard.server import share_arenas
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
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
library.malloc_info.argtypes, library.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
file = library.fopen(sys.argv[2].encode(), b"w")
library.malloc_info(0, file)
library.fclose(file)
print(Path(sys.argv[2]).read_text().count("<heap nr="))
"""


def arenas(how: str, folder: Path) -> int:
    """Return the number of malloc arenas of a process after its threads have ended."""
    words = [sys.executable, "-c", SCRIPT, how, str(folder / how)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_threads_share_arenas(tmp_path: Path) -> None:
    assert arenas("shared", tmp_path) <= 2 < arenas("apart", tmp_path)
