"""Waits for batches that no DataLoader makes: the rule and the first line say the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import MXNET, ON_TENSORFLOW, command, environment, finish, needs_mxnet, script

TENSORFLOW = str(Path(MXNET).parents[2] / "tensorflow" / "bin" / "python")
PYTHONS = {"torch": sys.executable, "tensorflow": TENSORFLOW, "mxnet": MXNET}
SAID = {
    "torch": ("is a wait before the model is called, for data most likely", "for its data, most likely"),
    "tensorflow": ("is waiting for data", "of the step time is waiting for data"),
    "mxnet": ("is waiting for data", "of the step time is waiting for data"),
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_a_wait_for_batches_is_named(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("slow_batches.py"), framework)
    words = [PYTHONS[framework], *command((), *job, root=tmp_path)[1:]]
    variables = ON_TENSORFLOW if framework == "tensorflow" else {}
    ended = finish(words, tmp_path, env=environment(**variables))
    (finding,) = [found for found in ended.run.findings().to_pylist() if found["rule"] == "input_bound"]
    by_rule, by_headline = SAID[framework]
    assert by_rule in finding["message"]
    assert by_headline in " ".join(" ".join(ended.err.split()).split("leadline"))
