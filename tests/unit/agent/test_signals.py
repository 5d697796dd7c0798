"""Processes that the agent starts and reaps while it blocks signals."""

from __future__ import annotations

import subprocess
import sys

PATIENCE_SECONDS = 60.0
AGENT = """
import os, signal, sys, time
from leadline.agent.job import adopt_orphans
from leadline.agent.signals import SignalGate

gate = SignalGate()
adopt_orphans()
blocked = "import signal, sys; sys.exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
mask = gate.spawn([sys.executable, "-c", blocked], os.environ)
alone = gate.spawn(["sh", "-c", "exit 3"], os.environ, has_own_session=True)
leaving = gate.spawn(["sh", "-c", "sleep 0.1 & exit 4"], os.environ)
assert gate.sessions == {alone.pid}
until = time.monotonic() + 30
children = True
while children and time.monotonic() < until:
    gate.wait(0.5)
    gate.reap()
    children = open(f"/proc/self/task/{os.getpid()}/children").read()
assert (mask.code, alone.code, leaving.code) == (0, 3, 4), (mask.code, alone.code, leaving.code)
assert not children, "an orphan was left"
"""


def test_children_start_with_the_original_mask_and_are_reaped_together_with_orphans() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AGENT], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
