"""A failure of Leadline inside the training: reported once, it ends a fact or the capture; training bit-identical."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

import leadline
from leadline.frameworks.torch.capture import device_copy, forward_capture, program
from leadline.frameworks.torch.capture.optimizer_capture import TorchSubject
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.naming.loss_calls import LossCalls
from leadline.reader.summary import summarize
from leadline.store import writer
from leadline.torch import Hook
from leadline.training.recorder.step_recorder import StepRecorder

BROKEN_STEP = 7
BROKEN_CALLS = {"_flush_rows": 0, "_capture_outputs": 0, "_begin_call": 0, "after_call": 0}
"""The number of the call that raises, for functions that are not called once per step."""


def train(steps: int = 20) -> tuple[list[float], list[torch.Tensor]]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(torch.tanh(model(torch.randn(8, 4))), torch.zeros(8, 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach() for parameter in model.parameters()]


def breaking(function: Callable[..., Any], at: int, error: BaseException) -> Callable[..., Any]:
    """Return the function, modified to raise at call number ``at``."""
    calls = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise error
        return function(*args, **kwargs)

    return broken


FACTS = [
    (device_copy, "device_statistics"),
    (program.TorchProgram, "before"),
    (program.TorchProgram, "after"),
    (program.TorchProgram, "fill"),
    (forward_capture.AccuracyCounts, "add"),
    (LossCalls, "resolve"),
    (LoopChecks, "before_update"),
    (TorchSubject, "hyperparameters"),
]
PLACES = [
    (ForwardHooks, "_capture_outputs"),
    (ForwardHooks, "_begin_call"),
    (ForwardHooks, "after_call"),
    (StepRecorder, "record_loss"),
    (StepRecorder, "after_update"),
    (writer.Writer, "put_row"),
    (writer.Writer, "_flush_rows"),
]


@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[name for _, name in PLACES])
def test_an_internal_failure_is_reported_once_and_disables_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], owner: Any, name: str
) -> None:
    expected_losses, expected = train()
    originals = torch.autograd._engine_run_backward, nn.Module.train
    at = BROKEN_CALLS.get(name, BROKEN_STEP)
    monkeypatch.setattr(owner, name, breaking(getattr(owner, name), at, KeyError("ours")))
    with Hook(out=str(tmp_path), name="run", capture=["all:every=1,raw=true", "all:every=1"]) as hook:
        losses, weights = train()
        leadline.log(after=1.0)
    assert losses == expected_losses
    assert all(torch.equal(*pair) for pair in zip(weights, expected, strict=True))
    assert capfd.readouterr().out == ""
    run = leadline.open_run(hook.run)
    (worker,) = run.worker_documents().values()
    assert worker.off.error.startswith("KeyError: 'ours' (")
    assert worker.off.step <= 20
    listed = summarize(hook.run)
    assert listed is not None
    assert listed.outcome.brief.startswith(f"Capture ended at step {worker.off.step}: KeyError: 'ours' (")
    assert run.verify() == []
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks
    assert (torch.autograd._engine_run_backward, nn.Module.train) == originals
    assert not torch_module._global_forward_hooks
    assert not torch_module._global_forward_pre_hooks
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize(("owner", "name"), FACTS, ids=[name for _, name in FACTS])
def test_a_failure_to_find_a_fact_ends_that_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    expected_losses, expected = train()
    at = {"device_statistics": 20, "add": 0, "resolve": 2, "before_update": 2}.get(name, BROKEN_STEP)
    monkeypatch.setattr(owner, name, breaking(getattr(owner, name), at, KeyError("ours")))
    asked = ["all:every=1,raw=true", "all:every=1", "checks:every=1", "metrics:every=1", "hyperparameters:every=1"]
    with Hook(out=str(tmp_path), name="run", preset=None, capture=asked) as hook:
        losses, weights = train()
    assert losses == expected_losses
    assert all(torch.equal(*pair) for pair in zip(weights, expected, strict=True))
    run = leadline.open_run(hook.run)
    (worker,) = run.worker_documents().values()
    assert worker.off is None
    assert all(" not captured " in note and ": KeyError: 'ours' (" in note for note in worker.notes), worker.notes
    assert len(worker.notes) == (name not in ("before", "device_statistics"))  # once, and then each item alone
    assert run.verify() == []
    (loss,) = run.tensor_names(collection="losses")
    assert [run.tensor(loss).statistic("value", step) for step in range(20)] == pytest.approx(expected_losses)


def test_an_interruption_of_the_training_is_not_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepRecorder, "after_update", breaking(StepRecorder.after_update, 3, KeyboardInterrupt()))
    with Hook(out=str(tmp_path), name="run") as hook, pytest.raises(KeyboardInterrupt):
        train()
    (worker,) = leadline.open_run(hook.run).worker_documents().values()
    assert worker.off is None
