"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

PATIENCE_SECONDS = 60.0
CHILD = "from leadline.judge.parent_death import die_with_parent; die_with_parent(); print('up', flush=True); input()"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
input()
"""


def test_a_child_is_killed_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert os.path.exists(f"/proc/{child}")
        parent.kill()
    until = time.monotonic() + PATIENCE_SECONDS
    while _runs(child):
        assert time.monotonic() < until
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether it runs; one that nobody has reaped yet does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
