"""Runs and trials that somebody damaged or made to do harm are looked at without a traceback, a hang or much memory.

Few by default; ``LEADLINE_HOSTILE_RUNS=2000`` looks at two thousand, ``LEADLINE_HOSTILE_SEED`` at others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launching import PATIENCE, environment

COUNT = int(os.environ.get("LEADLINE_HOSTILE_RUNS", "60"))
SEED = int(os.environ.get("LEADLINE_HOSTILE_SEED", "7"))
pytestmark = pytest.mark.slow


def test_hostile_runs_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("hostile_runs.py")), str(COUNT), str(SEED)]
    done = subprocess.run(
        words, env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=max(PATIENCE, 5 * COUNT)
    )
    with capsys.disabled():
        print("\n" + done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
