"""Facts about labels, computed by Keras in a function and eagerly, equal those of numpy."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from launching import PATIENCE, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_keras_computes_what_numpy_computes(backend: str) -> None:
    env = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [PYTHON, script("keras_label_facts.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) == 4
    for of_numpy, eager, in_function in results:
        assert eager == pytest.approx(of_numpy)
        assert in_function == pytest.approx(of_numpy)
