"""What is left of a loaded state at the first step of its optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch

from leadline.frameworks.torch.diagnose.loaded_states import moment_norms


def stepped(lr: float = 0.1, *, kind: type[torch.optim.Optimizer] = torch.optim.AdamW) -> torch.optim.Optimizer:
    """Return an optimizer, of a schedule, that has made three steps."""
    optimizer = made(lr, kind=kind)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    for _ in range(3):
        train(optimizer)
        schedule.step()
    return optimizer


def made(lr: float = 0.1, *, kind: type[torch.optim.Optimizer] = torch.optim.AdamW) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    return kind(torch.nn.Linear(3, 2).parameters(), lr=lr)  # type: ignore[call-arg]


def train(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    weight, bias = optimizer.param_groups[0]["params"]
    torch.nn.functional.linear(torch.randn(4, 3), weight, bias).square().mean().backward()
    optimizer.step()


def checks(folder: Path, optimizer: torch.optim.Optimizer, prepare: Callable[[], object]) -> dict[str, float]:
    """Return the checks of the first step of an optimizer."""

    def begin() -> None:
        prepare()
        train(optimizer)

    found = scalars(watch(folder, begin, "checks:every=1"), "checks")
    return {name: values[max(values)] for name, values in found.items()}


def restarted(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)


def forgotten(optimizer: torch.optim.Optimizer) -> None:
    optimizer.state.clear()


def lowered(optimizer: torch.optim.Optimizer) -> object:
    optimizer.param_groups[0]["lr"] = 1e-3
    optimizer.param_groups[0]["initial_lr"] = 1e-3
    return restarted(optimizer)


@pytest.mark.parametrize(
    ("then", "parts"),
    [
        (lambda optimizer: None, {"lr": 0.0125, "steps": 3.0, "norm": "same", "over": 0.0}),
        (restarted, {"lr": 0.1, "steps": 3.0, "norm": "same", "over": 1.0}),
        (lowered, {"lr": 1e-3, "steps": 3.0, "norm": "same", "over": 0.0}),
        (forgotten, {"lr": 0.0125, "norm": 0.0, "over": 0.0}),
    ],
)
def test_states_are_compared_at_the_first_step(
    tmp_path: Path, then: Callable[[torch.optim.Optimizer], object], parts: dict[str, float | str]
) -> None:
    state, optimizer, alive = stepped().state_dict(), made(), list[object]()

    def prepare() -> None:
        optimizer.load_state_dict(state)
        alive.append(then(optimizer))

    found = checks(tmp_path, optimizer, prepare)
    assert found["AdamW/loaded_state/lr"] == pytest.approx(0.0125)
    assert found["AdamW/loaded_state/steps"] == 3.0
    assert found["AdamW/loaded_state/norm"] > 0
    assert found["AdamW/schedule_started_over"] == parts["over"]
    assert found["AdamW/first_state/lr"] == pytest.approx(parts["lr"])
    assert found.get("AdamW/first_state/steps") == parts.get("steps")
    expected = found["AdamW/loaded_state/norm"] if parts["norm"] == "same" else parts["norm"]
    assert found["AdamW/first_state/norm"] == expected


def test_nothing_is_said_of_a_state_that_was_not_loaded_or_came_late(tmp_path: Path) -> None:
    state, optimizer = stepped().state_dict(), made()

    def prepare() -> None:
        train(optimizer)
        optimizer.load_state_dict(state)

    assert not any("_state/" in name for name in checks(tmp_path / "late", optimizer, prepare))
    other = made()
    assert not any("_state/" in name for name in checks(tmp_path / "other", other, lambda: None))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(torch.optim.AdamW, "exp_avg_sq"), (torch.optim.Adagrad, "sum"), (torch.optim.RMSprop, "square_avg")],
)
def test_the_norm_is_that_of_the_squares(kind: type[torch.optim.Optimizer], name: str) -> None:
    optimizer = stepped(kind=kind)
    ((found, norm),) = moment_norms(optimizer).items()
    assert found == name
    squares = sum(float(state[name].square().sum()) for state in optimizer.state.values())
    assert float(norm) == pytest.approx(math.sqrt(squares))


def test_there_is_none_without_moments() -> None:
    assert moment_norms(stepped(kind=torch.optim.SGD)) == {}


@pytest.mark.parametrize(("is_stored", "is_loaded"), [(True, False), (True, True), (False, False)])
def test_a_schedule_in_the_file_that_nobody_loads_is_known(tmp_path: Path, is_stored: bool, is_loaded: bool) -> None:
    first, file = made(), tmp_path / "checkpoint.pt"
    before = restarted(first)
    for _ in range(3):
        train(first)
        before.step()
    state = {"model": torch.nn.Linear(3, 2).state_dict(), "optimizer": first.state_dict()}
    torch.save(state | ({"parts": [before.state_dict()]} if is_stored else {}), file)
    optimizer, alive = made(), list[torch.optim.lr_scheduler.LambdaLR]()

    def prepare() -> None:
        schedule = restarted(optimizer)
        alive.append(schedule)
        loaded = torch.load(file)
        optimizer.load_state_dict(loaded["optimizer"])
        if is_loaded:
            schedule.load_state_dict(loaded["parts"][0])

    found = checks(tmp_path / "run", optimizer, prepare)
    assert found.get("AdamW/schedule_not_loaded") == (3.0 if is_stored and not is_loaded else None)
