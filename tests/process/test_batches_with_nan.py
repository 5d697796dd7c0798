"""A NaN in the data is named where it enters, at a step of which nothing but the loss is captured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import MXNET, ON_TENSORFLOW, command, environment, finish, needs_mxnet, script

TENSORFLOW = str(Path(MXNET).parents[2] / "tensorflow" / "bin" / "python")
PYTHONS = {"torch": sys.executable, "function": TENSORFLOW, "fit": TENSORFLOW, "mxnet": MXNET}
SAID = {
    "torch": "from batch 21: 1 of 640 elements not finite in Sequential_input_0",
    "function": "from batch 21: 1 of 640 elements not finite in train_step_input_0",
    "fit": "from the data: 1 of 32,000 elements not finite in fit_input_0",
    "mxnet": "from batch 21: 1 of 640 elements not finite in dense0_input_0",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_the_batch_with_a_nan_is_the_origin(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("nan_row.py"), framework)
    words = [PYTHONS[framework], *command((), *job, root=tmp_path)[1:]]
    variables = ON_TENSORFLOW if PYTHONS[framework] == TENSORFLOW else {}
    ended = finish(words, tmp_path, env=environment(**variables))
    run = ended.run
    if framework == "function":
        assert any("watching sequential (4 parameters, Adam)" in line for line in ended.said)
    (finding,) = [found for found in run.findings().to_pylist() if found["rule"] == "nonfinite_origin"]
    assert finding["message"] == SAID[framework]
    assert finding["step"] == 21
    (name,) = [name for name in run.tensor_names(collection="inputs") if name in finding["message"]]
    counted = run.tensor(name).statistics("nonfinite_count").to_pylist()
    assert [row["value"] for row in counted if row["mode_step"] == 21] == [1]
