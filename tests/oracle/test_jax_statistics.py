"""Statistics that JAX computes, in a compiled function and in a loop, equal those of numpy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = str(ROOT / ".venvs" / "jax" / "bin" / "python")
SCRIPT = str(ROOT / "tests" / "process" / "scripts" / "jax_statistics.py")


@pytest.mark.slow
def test_statistics_equal_those_of_numpy() -> None:
    done = subprocess.run([PYTHON, SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
