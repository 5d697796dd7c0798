"""A training that runs out of memory: memory by module is recorded, and the error is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import bare, watched

SCRIPT = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    if step == 9:
        torch.empty(1 << 50)
"""


@pytest.mark.slow
def test_memory_by_module_is_recorded_and_the_error_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    without = bare(str(tmp_path / "train.py"), folder=tmp_path)
    ended = watched((), "train.py", folder=tmp_path)
    assert (without.status, ended.status) == (1, 1)
    assert without.err.splitlines()[-1] in ended.err.splitlines(), ended.err
    (found,) = ended.run.out_of_memory()
    assert found["step"] == 10
    assert "can't allocate memory" in found["error"]
    assert [row["module"] for row in found["modules"]] == ["0", "2"]
    assert found["categories"]["optimizer_state"] >= 2 * found["categories"]["parameters"]
    events = ended.run.timeline()
    assert "out_of_memory" in events["name"].to_pylist()
    (worker,) = ended.show()["workers"]
    assert any("out of memory at step 10" in note for note in worker["notes"])
