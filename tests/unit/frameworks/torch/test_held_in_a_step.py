"""Within one step the number of tensors that are held, and named, does not grow with what the script does in it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional as F

from leadline.frameworks.torch.capture import forward_capture

PASSES, FEW = 60, 60
LABELS = torch.zeros(8, dtype=torch.long)
CAPTURE = ("layers:every=1", "losses:every=1", "metrics:every=1", "checks:every=1")
Within = Callable[[nn.Module], object]


def batch() -> torch.Tensor:
    return torch.randn(8, 4)


def evaluate(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(PASSES):
            F.cross_entropy(model(batch()), LABELS)


def act(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(PASSES):
            F.softmax(model(batch()), 1).multinomial(1)


def discard(model: nn.Module) -> None:
    for _ in range(PASSES):
        F.cross_entropy(model(batch()), LABELS.clone())


def accumulate(model: nn.Module) -> None:
    for _ in range(PASSES):
        (F.cross_entropy(model(batch()), LABELS.clone()) / PASSES).backward()


def call_losses(model: nn.Module) -> None:
    outputs = model(batch())
    for _ in range(PASSES):
        F.cross_entropy(outputs, LABELS.clone())


KINDS: dict[str, Within] = {each.__name__: each for each in (evaluate, act, discard, accumulate, call_losses)}


def train(within: Within, at: int = 3, *, step: Callable[[], object] = lambda: None) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for number in range(at + 2):
        if number == at:
            within(model)
            step()
        loss = F.cross_entropy(model(batch()), LABELS)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_few_tensors_are_held(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_capture, "_MAX_CALLS", 16)
    held: list[int] = []

    def count() -> None:
        held.append(sum(type(each) is torch.Tensor for each in gc.get_objects()))

    def within(model: nn.Module) -> None:
        count()
        KINDS[kind](model)

    run = watch(tmp_path, lambda: train(within, step=count), *CAPTURE)
    assert held[1] - held[0] < FEW
    names = run.tensor_names()
    assert not [name for name in names if name.rpartition("_")[2].isdigit() and int(name.rpartition("_")[2]) >= 20]


@pytest.mark.parametrize("kind", ["evaluate", "act"])
def test_passes_without_gradients_are_not_captured_in_place_of_the_training(kind: str, tmp_path: Path) -> None:
    alone = watch(tmp_path / "alone", lambda: train(lambda model: torch.manual_seed(1)), *CAPTURE)
    expected = alone.tensor("Sequential_output_0").statistic("mean", 3)

    def within(model: nn.Module) -> None:
        KINDS[kind](model)
        torch.manual_seed(1)

    run = watch(tmp_path / "with", lambda: train(within), *CAPTURE)
    assert run.tensor("Sequential_output_0").statistic("mean", 3) == expected
    assert scalars(run, "metrics") == scalars(alone, "metrics")
    assert scalars(run, "losses") == scalars(alone, "losses")


def test_a_bound_that_is_reached_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_capture, "_MAX_CALLS", 16)
    run = watch(tmp_path, lambda: train(call_losses), *CAPTURE)
    (worker,) = run.worker_documents().values()
    assert worker.notes == (
        "tensors beyond 16 of one module or function, and beyond 16,384 in all, are not captured in one step",
    )
    assert "cross_entropy_output_15" in run.tensor_names()
    assert "cross_entropy_output_16" not in run.tensor_names()


def test_whole_tensors_of_a_step_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_capture, "_RAW_BYTES", 1000)
    run = watch(tmp_path, lambda: train(lambda model: None), "layers:every=1,raw=true")
    (worker,) = run.worker_documents().values()
    assert worker.notes == ("inputs and outputs beyond 0 MB of whole tensors in one step are not stored",)
    assert run.tensor("Sequential_input_0").value(3).shape == (8, 4)
