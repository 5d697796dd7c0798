"""What fails at the end of the capture does not reach the training, nor keep the rest from ending."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

import leadline
import leadline.torch


@pytest.mark.parametrize("part", ["_profiling", "_oom_report", "_trackers", "_loggers", "_frameworks"])
def test_a_failing_part_of_the_end_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", capture=("losses:every=1",))
    session = hook.session
    assert session is not None
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    method = "uninstall" if part in ("_loggers", "_frameworks") else "close"
    original = getattr(getattr(session, part), method)

    def failing(*args: object) -> None:
        original(*args)
        raise RuntimeError("planted")

    monkeypatch.setattr(getattr(session, part), method, failing)
    assert hook.close()
    run = leadline.open_run(hook.run)
    (document,) = run.worker_documents().values()
    assert document.steps == {"train": 3}
    assert any("planted" in note for note in document.notes)
    assert not torch_module._global_forward_pre_hooks
