"""With ``tests/late_dynamo.py`` a training is the same, and imports the compiler only if it compiles something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import bare, environment, finish

TRAINING = """
import sys, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
print("torch._dynamo" in sys.modules)
torch.compile(model, backend="eager")(torch.ones(1, 2)).sum().backward()
optimizer.step()
print("torch._dynamo" in sys.modules)
"""

pytestmark = [pytest.mark.slow, pytest.mark.real_starts]


def test_weights_are_the_same(tmp_path: Path) -> None:
    late, usual = (bare("faults.py", "loss_spike", "--digest", folder=tmp_path, LATE_DYNAMO=way) for way in ("1", ""))
    assert (late.status, usual.status) == (0, 0), late.err
    assert late.out == usual.out


@pytest.mark.parametrize(("way", "imported"), [("1", ["False", "True"]), ("", ["True", "True"])])
def test_the_compiler_is_imported_when_something_is_compiled(tmp_path: Path, way: str, imported: list[str]) -> None:
    ended = finish([sys.executable, "-c", TRAINING], tmp_path, env=environment(LATE_DYNAMO=way))
    assert (ended.status, ended.lines) == (0, imported), ended.err
