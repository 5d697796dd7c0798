"""Low-rank adapters that cannot learn are counted before the first step of their optimizer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from leadline.frameworks.torch.diagnose.adapters import adapter_checks

COUNTS = ("adapters", "frozen_adapters", "adapters_outside_optimizers", "adapters_without_gradient")


class Layer(nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 8)
        self.lora_A, self.lora_B = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.lora_B(self.lora_A(x))


class Model(nn.Module):
    def __init__(self, *, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.layers, self.head = nn.Sequential(Layer(), Layer()), nn.Linear(8, 2)
        self.is_checkpointed = is_checkpointed
        for name, parameter in self.named_parameters():
            parameter.requires_grad = "lora" in name or "head" in name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(checkpoint(self.layers, x, use_reentrant=True) if self.is_checkpointed else self.layers(x))

    def adapters(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.named_parameters() if "lora" in name]


def counts(model: Model, *optimizers: torch.optim.Optimizer) -> tuple[float, ...]:
    """Return the counts of the first optimizer; the second one has stepped, and others have not."""
    model(torch.randn(4, 8)).sum().backward()
    found = adapter_checks(optimizers[0], [model], optimizers[1:2])
    return tuple(found[name] for name in COUNTS)


def sgd(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)  # type: ignore[arg-type]


def test_adapters_that_learn() -> None:
    model = Model()
    assert counts(model, sgd(model.parameters())) == (4, 0, 0, 0)


def test_frozen_ones() -> None:
    model = Model()
    for parameter in model.adapters():
        parameter.requires_grad = False
    assert counts(model, sgd(model.parameters())) == (4, 4, 0, 0)


def test_ones_that_are_frozen_while_their_layers_are_trained() -> None:
    """A model is pretrained with its adapters in place."""
    model = Model()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "lora" not in name
    assert counts(model, sgd(model.parameters())) == (4, 0, 0, 0)
    model.layers[1].requires_grad_(False)
    assert counts(model, sgd(model.parameters())) == (4, 2, 0, 0)


@pytest.mark.parametrize("has_stepped", [None, True, False])
def test_ones_that_the_optimizer_does_not_hold(has_stepped: bool | None) -> None:
    model = Model()
    own = sgd(model.head.parameters())
    if has_stepped is None:
        assert counts(model, own) == (4, 0, 4, 0)
    else:
        other = sgd(model.adapters())
        assert counts(model, own, *([other] if has_stepped else [])) == (4, 0, 0, 0)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_ones_that_a_checkpoint_cuts_off() -> None:
    model = Model(is_checkpointed=True)
    assert counts(model, sgd(model.parameters())) == (4, 0, 0, 4)


def test_without_any_gradient_nothing_is_cut_off() -> None:
    model = Model()
    found = adapter_checks(sgd(model.parameters()), [model], [])
    assert [found[name] for name in COUNTS] == [4, 0, 0, 0]


@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 2), lambda: nn.ModuleDict({"explora_tion": nn.Linear(2, 2)})])
def test_models_without_adapters_have_no_counts(make: Callable[[], nn.Module]) -> None:
    model = make()
    assert adapter_checks(sgd(model.parameters()), [model], []) == {}
