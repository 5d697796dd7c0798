"""Pairs of linear layers: those that are one layer, and those that are meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional as F

from leadline.frameworks.torch.capture.linear_pairs import LinearPairs

ROWS, SEQUENCES, IMAGES = torch.randn(4, 8), torch.randn(4, 5, 8), torch.randn(2, 3, 9, 9)


class Own(nn.Module):
    """A module with parts and a function of them."""

    def __init__(self, forward: Callable[..., torch.Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.parts, self._forward = nn.ModuleList(parts), forward

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._forward(inputs, *self.parts)


def pairs(model: nn.Module, inputs: torch.Tensor) -> list[str]:
    """Return the names of the pairs in a model."""
    found = LinearPairs(lambda: [model]).find(model(inputs).square().mean().grad_fn)
    names = [name.rpartition("/")[0] for name in found]
    assert names[0] == "loss"
    assert found["loss/consecutive_linear"] >= len(names) - 1
    return names[1:]


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), ROWS, ["0+1"]),
        (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), SEQUENCES, ["0+1"]),
        (nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False)), SEQUENCES, ["0+1"]),
        (nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4), nn.Linear(4, 2)), ROWS, ["0+1", "1+2"]),
        (nn.Sequential(nn.Linear(8, 4), nn.Identity(), nn.Linear(4, 2)), ROWS, ["0+2"]),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)), IMAGES, ["0+1"]),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 3)), IMAGES, ["0+1"]),
    ],
)
def test_layers_in_direct_sequence_are_a_pair(model: nn.Module, inputs: torch.Tensor, expected: list[str]) -> None:
    assert pairs(model, inputs) == expected


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)), ROWS),
        (nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 4)), ROWS),
        (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4)), SEQUENCES),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)), IMAGES),
        (nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8)), ROWS),  # LoRA
        (nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.Conv2d(3, 8, 3)), IMAGES),  # depthwise
        (nn.Sequential(nn.Conv2d(3, 3, 3), nn.Conv2d(3, 8, 1)), IMAGES),  # pointwise
        (nn.Sequential(nn.Conv2d(3, 3, (1, 3)), nn.Conv2d(3, 8, (3, 1))), IMAGES),  # separable
        (nn.Sequential(nn.Conv2d(3, 4, 9), nn.Flatten(), nn.Linear(4, 2)), IMAGES),
        (nn.Sequential(nn.Linear(8, 72), nn.Unflatten(1, (8, 3, 3)), nn.ConvTranspose2d(8, 1, 3)), ROWS),
        (Own(lambda x, a, b: b(h := a(x)) + h, nn.Linear(8, 8), nn.Linear(8, 8)), ROWS),  # residual
        (Own(lambda x, a, b: b(a(x, x, x)[0]), nn.MultiheadAttention(8, 2), nn.Linear(8, 4)), SEQUENCES),
        (Own(lambda x, a, b: b(a(x)[0]), nn.LSTM(8, 4), nn.Linear(4, 2)), SEQUENCES),
        (Own(lambda x, a, b: F.cosine_similarity(a(x), b(x)), nn.Linear(8, 4), nn.Linear(8, 4)), ROWS),
    ],
)
def test_other_layers_are_none(model: nn.Module, inputs: torch.Tensor) -> None:
    assert pairs(model, inputs) == []


def test_a_frozen_model_is_not_looked_into() -> None:
    frozen = nn.Linear(8, 8).requires_grad_(False)
    assert pairs(nn.Sequential(frozen, nn.Linear(8, 4)), ROWS) == []


def test_the_walk_is_bounded() -> None:
    deep = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), *[nn.ReLU() for _ in range(500)], nn.Linear(8, 4))
    assert pairs(deep, ROWS) == []
    assert pairs(deep[:100], ROWS) == ["0+1"]


def test_many_pairs_are_counted_and_the_first_named() -> None:
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(9)])
    found = LinearPairs(lambda: [model]).find(model(ROWS).mean().grad_fn)
    assert found == {"loss/consecutive_linear": 8.0} | {f"{at}+{at + 1}/consecutive_linear": 1.0 for at in range(4)}


def test_pairs_are_captured_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            model(ROWS).square().mean().backward()
            optimizer.step()

    found = scalars(watch(tmp_path, train, "checks:every=1"), "checks")
    assert {name: values for name, values in found.items() if name.endswith("consecutive_linear")} == {
        "0+1/consecutive_linear": {0: 1.0},
        "loss/consecutive_linear": {0: 1.0},
    }
