"""Sixteen trainings of the kinds that public programs have: equal to the bit, steps counted, no false alarm."""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from pathlib import Path

import pytest
from launching import MXNET, ON_JAX, ON_TENSORFLOW, command, environment, finish, needs_mxnet, script

VENVS = Path(MXNET).parents[2]
PYTHONS = {"torch": sys.executable, "mxnet": MXNET} | {
    name: str(VENVS / name / "bin" / "python") for name in ("jax", "tensorflow", "trees")
}
MODELS = {"mxnet": "Tagger", "tensorflow": "variables"}
"""What is watched in the first training: the model, although the script never calls it, or what takes its place."""
VARIABLES = {"jax": ON_JAX, "tensorflow": ON_TENSORFLOW}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_kinds_of_public_programs_are_equal_and_counted(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("public_kinds.py"), framework)
    variables = environment(**VARIABLES.get(framework, {}))
    bare = finish(list(job), tmp_path, env=variables)
    assert bare.status == 0, bare.err
    watched = finish([job[0], *command((), *job, root=tmp_path)[1:]], tmp_path, env=variables)
    assert watched.status == 0, watched.err
    assert watched.lines[-1] == bare.lines[-1]
    steps = json.loads(bare.lines[-1])["steps"]
    begins = list(accumulate(steps.values(), initial=0))[:-1]
    assert any(f"watching {MODELS.get(framework, '')}" in line for line in watched.said)
    assert watched.show()["steps"]["train"] == sum(steps.values())
    assert set(begins) <= {0, *watched.run.trainings()}, "each training is one of its own"
    assert [row for row in watched.run.findings().to_pylist() if row["severity"] != "advice"] == []
