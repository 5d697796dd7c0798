"""The status of a run whose script receives signals that ask it to end, and trains on or ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import watched

SCRIPT = """
import os, signal, sys, time
import torch

class Enough(Exception):
    pass

def leave(*_):
    raise Enough

def note(*_):
    noted.append(1)

number, noted = getattr(signal, sys.argv[1]), []
handlers = {"ignores": signal.SIG_IGN, "notes": note, "leaves": leave, "default": signal.SIG_DFL}
signal.signal(number, handlers[sys.argv[2]])
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
try:
    for step in range(400):
        loss = (model(torch.ones(2, 4)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.01)
        if step in (20, 100):
            os.kill(os.getppid(), number)
except Enough:
    print("saved")
print("received", len(noted))
sys.exit(int(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("words", "status", "shown", "printed"),
    [
        (("SIGTERM", "notes", "0"), 0, "Completed", "received 2"),
        (("SIGINT", "notes", "42"), 42, "Failed", "received 2"),
        (("SIGTERM", "ignores", "0"), 0, "Completed", "received 0"),
        (("SIGTERM", "leaves", "0"), 0, "Interrupted", "saved"),
        (("SIGTERM", "default", "0"), 143, "Interrupted", ""),
    ],
)
def test_a_signal_that_the_script_survives_does_not_interrupt_the_run(
    tmp_path: Path, words: tuple[str, ...], status: int, shown: str, printed: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = watched(("--no-default-rules",), sys.executable, str(script), *words, folder=tmp_path)
    assert (ended.status, ended.show()["status"]) == (status, shown)
    assert printed in ended.out
