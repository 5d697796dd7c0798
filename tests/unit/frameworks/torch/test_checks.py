"""What the hooks notice of a loop: old gradients, modules in the wrong mode, parameters that no optimizer holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from watched import scalars, watch

from leadline.frameworks.torch.diagnose.stale_gradients import StaleGradients

STEPS = 6


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 2))


def noticed(folder: Path, train: Callable[[], None]) -> dict[str, list[float]]:
    run = watch(folder, train, "checks:every=1")
    return {name: [found[step] for step in sorted(found)] for name, found in scalars(run, "checks").items()}


def loop(
    model: nn.Module, optimizer: torch.optim.Optimizer, renew: Callable[[], None], micro_batches: int = 1
) -> Callable[[], None]:
    def train() -> None:
        for _ in range(STEPS):
            renew()
            for _ in range(micro_batches):
                model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize(
    "renew",
    [
        lambda optimizer, model: optimizer.zero_grad(),
        lambda optimizer, model: optimizer.zero_grad(set_to_none=False),
        lambda optimizer, model: model.zero_grad(),
        lambda optimizer, model: [p.grad.zero_() for p in model.parameters() if p.grad is not None],
        lambda optimizer, model: [setattr(p, "grad", None) for p in model.parameters()],
    ],
)
def test_gradients_that_are_renewed_in_any_way_are_no_leftovers(tmp_path: Path, renew, micro_batches: int) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = noticed(tmp_path, loop(model, optimizer, lambda: renew(optimizer, model), micro_batches))
    assert found["SGD/steps_without_zero_grad"] == [0.0] * (STEPS - 1)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_gradients_that_are_never_renewed_are_counted(tmp_path: Path, micro_batches: int) -> None:
    model = small()
    optimizer = torch.optim.AdamW(model.parameters())
    found = noticed(tmp_path, loop(model, optimizer, lambda: None, micro_batches))
    assert found["AdamW/steps_without_zero_grad"] == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("is_frozen", [True, False])
def test_two_networks_that_take_turns_are_told_apart(tmp_path: Path, to_none: bool, is_frozen: bool) -> None:
    """The backward pass of one reaches the other, unless that is frozen for it."""
    one, other = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(each.parameters()) for each in (one, other)]

    def train() -> None:
        for _ in range(STEPS):
            optimizers[1].zero_grad(set_to_none=to_none)
            other(one(torch.randn(3, 4)).detach()).mean().backward()
            optimizers[1].step()
            other.requires_grad_(not is_frozen)
            optimizers[0].zero_grad(set_to_none=to_none)
            other(one(torch.randn(3, 4))).mean().backward()
            optimizers[0].step()
            other.requires_grad_(True)

    found = noticed(tmp_path, train)
    counts = {name: each for name, each in found.items() if name.endswith("zero_grad")}
    assert set(counts) == {"Adam/steps_without_zero_grad", "Adam_1/steps_without_zero_grad"}
    assert all(set(each) == {0.0} for each in counts.values())


def test_one_of_two_networks_without_it_is_counted(tmp_path: Path) -> None:
    one, other = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(one.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)]

    def train() -> None:
        for _ in range(STEPS):
            for optimizer, model in zip(optimizers, (one, other), strict=True):
                if model is one:
                    optimizer.zero_grad()
                other(one(torch.randn(3, 4))).mean().backward()
                optimizer.step()

    found = noticed(tmp_path, train)
    assert set(found["Adam/steps_without_zero_grad"]) == {0.0}
    assert found["SGD/steps_without_zero_grad"] == [1.0, 2.0, 3.0, 4.0]  # the last belongs to a step that never ended


def test_what_was_left_is_not_held(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    left = StaleGradients()
    model(torch.randn(3, 4)).mean().backward()
    left.after_update(optimizer)
    import gc
    import weakref

    gradient = weakref.ref(model.weight.grad)
    model.zero_grad()
    gc.collect()
    assert gradient() is None


def test_training_in_evaluation_mode_is_counted(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        loop(model, optimizer, optimizer.zero_grad)()
        model.eval()
        loop(model, optimizer, optimizer.zero_grad)()

    assert noticed(tmp_path, train)["Sequential/train_steps_in_eval_mode"] == [0.0] * STEPS + [
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
        6.0,
    ]


@pytest.mark.parametrize("model", [nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.0))])
def test_a_model_without_modes_is_not_judged(tmp_path: Path, model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    assert set(noticed(tmp_path, loop(model, optimizer, optimizer.zero_grad))) == {"SGD/steps_without_zero_grad"}


def test_calls_without_gradients_in_training_mode_are_counted_while_somebody_looks(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(3):
            loop(model, optimizer, optimizer.zero_grad)()
            with torch.no_grad():
                for _ in range(4):
                    model(torch.randn(3, 4))

    run = watch(tmp_path, train, "checks:every=1", "outputs:every=1")
    assert max(scalars(run, "checks")["Sequential/eval_calls_in_train_mode"].values()) == 8.0


def test_a_parameter_that_no_optimizer_holds_is_named(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    found = noticed(tmp_path, loop(model, optimizer, model.zero_grad))
    assert found["0.weight/outside_optimizers"] == found["0.bias/outside_optimizers"] == [1.0] * STEPS
    assert {each for each in found if each.endswith("optimizers")} == {
        "0.weight/outside_optimizers",
        "0.bias/outside_optimizers",
    }


def test_what_another_optimizer_holds_or_is_frozen_is_not(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    later = torch.optim.Adam(model[0].parameters())
    found = noticed(tmp_path, loop(model, optimizer, model.zero_grad))
    assert not [each for each in found if each.endswith("optimizers")]
    assert later.param_groups


def test_a_parameter_that_joins_an_optimizer_is_no_outsider_any_more(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)

    def train() -> None:
        loop(model, optimizer, model.zero_grad)()
        optimizer.add_param_group({"params": list(model[0].parameters())})
        loop(model, optimizer, model.zero_grad)()

    assert noticed(tmp_path, train)["0.weight/outside_optimizers"] == [1.0] * STEPS + [0.0] * STEPS


def test_the_gradients_of_another_thread_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be in the making: PyTorch writes them without holding the interpreter, and to look then is to crash."""
    left, model = StaleGradients(), small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    looked: list[bool] = []
    monkeypatch.setattr(
        "leadline.frameworks.torch.diagnose.stale_gradients._Left.look", lambda each, is_alone: looked.append(is_alone)
    )
    model(torch.ones(1, 4)).sum().backward()
    left.after_update(optimizer)
    other = threading.Thread(target=left.at_backward)
    other.start()
    other.join()
    assert looked == []
    left.at_backward()
    assert looked == [True]
