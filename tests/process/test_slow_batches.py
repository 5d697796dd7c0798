"""Waits for batches that no DataLoader of PyTorch makes: the rule and the first line say the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import MXNET, ON_TENSORFLOW, command, environment, finish, needs_mxnet, script

TENSORFLOW = str(Path(MXNET).parents[2] / "tensorflow" / "bin" / "python")
PYTHONS = {"torch": sys.executable, "tensorflow": TENSORFLOW, "mxnet": MXNET}
GENERATOR = "a wait of the script before it calls the model: for its data, most likely"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_a_wait_for_batches_is_named(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("slow_batches.py"), framework)
    words = [PYTHONS[framework], *command((), *job, root=tmp_path)[1:]]
    variables = ON_TENSORFLOW if framework == "tensorflow" else {}
    ended = finish(words, tmp_path, env=environment(**variables))
    (rule,) = [rule for rule in ended.show()["rules"] if rule["name"] == "input_bound"]
    first = " ".join(ended.err.split())
    if framework == "torch":  # a generator of the script
        assert rule["verdict"] == "undecided"
        assert rule["why"].endswith(GENERATOR)
        assert GENERATOR in first
    else:
        assert rule["verdict"] == "fired"
        assert "of the step time is waiting for data" in first
