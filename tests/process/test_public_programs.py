"""The script that runs public programs bare and watched says which print the same, and which do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launching import environment

SCRIPT = str(Path(__file__).parents[2] / "scripts" / "public_programs.py")
TRAINING = """import os
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(3000):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
print(os.getpid(), "of a bar that is overwritten", end="\\b" * 9 + "\\r")
print("loss", loss.item(), f"in {os.times().elapsed} s")
"""
TABLE = """
[[program]]
name = "{name}"
file = "owner+repository/{name}/train.py"
commit = "77f55b9"
environment = "{python}"
edits = {{ "range(3000)" = "range(30)" }}
steps = {steps}
"""

pytestmark = pytest.mark.slow


def test_a_table_says_what_is_equal(tmp_path: Path) -> None:
    programs = {"healthy": TRAINING, "differing": TRAINING + "print(os.getpid())\n", "failing": TRAINING + "exit(3)\n"}
    for name, text in programs.items():
        (tmp_path / "owner+repository" / name).mkdir(parents=True)
        (tmp_path / "owner+repository" / name / "train.py").write_text(text)
    counts = {"healthy": 30, "differing": 31, "failing": 30, "absent": 30}
    table, page = tmp_path / "programs.toml", tmp_path / "page.md"
    table.write_text("".join(TABLE.format(name=n, steps=steps, python=sys.executable) for n, steps in counts.items()))
    words = [sys.executable, SCRIPT, str(tmp_path), str(page), "--programs", str(table)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in page.read_text().splitlines() if "/owner/repository/blob/77f55b9/" in line]
    found = {row[1].partition("]")[0].strip(" ["): [cell.strip() for cell in row[3:5]] for row in rows}
    assert found == {
        "healthy": ["bits (2 arrays)", "30, right"],
        "differing": ["differs in line 2", "30 of 31"],
        "failing": ["bits (2 arrays), status 3", "30, right"],
        "absent": ["not fetched", ""],
    }
