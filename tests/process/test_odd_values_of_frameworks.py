"""Whatever values a script gives, the capture goes on, and the loss of each usual step is recorded.

For PyTorch see ``tests/unit/frameworks/torch/test_odd_values.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import MXNET, needs_mxnet, script, watched

VENVS = Path(MXNET).parents[2]
TREES = str(VENVS / "trees" / "bin" / "python")
PYTHONS = {"tensorflow": str(VENVS / "tensorflow" / "bin" / "python"), "jax": str(VENVS / "jax" / "bin" / "python")}
PYTHONS |= {"mxnet": MXNET, "xgboost": TREES, "lightgbm": TREES}
CAPTURE = ("--budget", "off", "--no-default-rules")
CAPTURE += tuple(
    word for name in ("losses", "checks", "all", "gradient_norms") for word in ("--capture", f"{name}:every=1")
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_the_capture_goes_on(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("odd_values.py"), framework)
    ended = watched(CAPTURE, *job, folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="3")
    assert ended.status == 0, ended.err
    run = ended.run
    assert run.verify() == []
    (worker,) = run.worker_documents().values()
    assert worker.off is None, worker.off
    told = [float(line.rpartition(" ")[2]) for line in ended.out.splitlines() if line.startswith(("first", "after"))]
    recorded = [row["value"] for name in run.tensor_names(collection="losses") for row in run.scalars(name).to_pylist()]
    missing = [loss for loss in told if not any(abs(loss - float(each)) < 1e-5 for each in recorded)]
    assert missing == []
    assert len(recorded) >= len(told), "each step has a loss of its own"
    assert len(run.steps()) >= max(len(told), 15)
