"""Linear layers: pairs that are one layer, units that stay the same, and the data that layers are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional as F

from leadline.frameworks.torch.capture.linear_layers import LinearLayers

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
    found = LinearLayers(lambda: [model]).find(model(inputs).square().mean().grad_fn)
    names = [name.partition("/")[0] for name in found if name.endswith("/consecutive_linear")]
    assert names[0] == "loss"
    assert found["loss/consecutive_linear"] >= len(names) - 1
    return names[1:]


class Biased(nn.Module):
    """A linear layer as Keras computes it: a product, and the addition of a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.kernel + self.bias


class Images(nn.Module):
    """A convolution as Keras computes it: channels, and kernels by channel, come last."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(3, 3, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        kernel = self.kernel.permute(3, 2, 0, 1).contiguous()
        filtered = F.conv2d(images.permute(0, 3, 1, 2).contiguous(), kernel).permute(0, 2, 3, 1)
        return filtered + self.bias.reshape(1, 1, 1, -1)


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
        (nn.Sequential(Biased(8, 6), Biased(6, 4)), ROWS, ["0+1"]),
        (nn.Sequential(Biased(8, 6), Biased(6, 4)), SEQUENCES, ["0+1"]),
        (nn.Sequential(Images(9, 4), Images(4, 4)), torch.randn(2, 9, 9, 9), ["0+1"]),
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
        (nn.Sequential(Biased(8, 6), nn.ReLU(), Biased(6, 4)), ROWS),
        (Own(lambda x, a, b: b(a(x) + x), Biased(8, 8), Biased(8, 4)), ROWS),  # residual
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
    found = LinearLayers(lambda: [model]).find(model(ROWS).mean().grad_fn)
    pairs_found = {name: value for name, value in found.items() if name.endswith("/consecutive_linear")}
    first_ones = {f"{at}+{at + 1}/consecutive_linear": 1.0 for at in range(4)}
    assert pairs_found == {"loss/consecutive_linear": 8.0} | first_ones


def alike(model: nn.Module, inputs: torch.Tensor) -> list[str]:
    """Return the names of the layers with identical units, each with the next one."""
    found = LinearLayers(lambda: [model]).find(model(inputs).square().mean().grad_fn)
    names = [name.partition("/")[0] for name in found if name.endswith("/identical_units")]
    assert names[0] == "loss"
    assert found["loss/identical_units"] == len(names) - 1
    return names[1:]


def constant(model: nn.Module, *, biases: bool = True) -> nn.Module:
    """Set the weights of a model to 0.3."""
    for name, parameter in model.named_parameters():
        if biases or "bias" not in name:
            nn.init.constant_(parameter, 0.3)
    return model


DEEP = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        (constant(DEEP), ROWS, ["0+2", "2+4"]),
        (constant(nn.Sequential(Biased(8, 6), nn.ReLU(), Biased(6, 2))), ROWS, ["0+2"]),
        (constant(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))), IMAGES, ["0+2"]),
        (constant(nn.Sequential(Images(9, 4), nn.ReLU(), Images(4, 2))), torch.randn(2, 9, 9, 9), ["0+2"]),
        (
            constant(nn.Sequential(nn.Conv2d(3, 4, 7), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))),
            IMAGES,
            ["0+3"],
        ),
    ],
)
def test_units_that_stay_the_same(model: nn.Module, inputs: torch.Tensor, expected: list[str]) -> None:
    assert alike(model, inputs) == expected


def test_the_units_indeed_stay_the_same() -> None:
    model = constant(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2))).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(16, 8).double()), torch.randint(2, (16,))).backward()
        optimizer.step()
    weight = model[0].weight
    assert torch.allclose(weight, weight[:1].expand_as(weight))
    assert not torch.allclose(weight, torch.full_like(weight, 0.3))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)),
        constant(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)), biases=False),
        nn.Sequential(constant(nn.Linear(8, 6)), nn.Tanh(), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(8, 6), nn.Tanh(), constant(nn.Linear(6, 2))),
        nn.Sequential(constant(nn.Linear(8, 1)), nn.Tanh(), constant(nn.Linear(1, 2))),
    ],
)
def test_units_that_differ_somewhere(model: nn.Module) -> None:
    assert alike(model, ROWS) == []


class Adapted(nn.Module):
    """A frozen layer, and two factors of its change, of which the second starts with zeros."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.base(inputs) + 2 * (inputs @ self.a.T @ self.b.T)


@pytest.mark.parametrize("sizes", [(8, 8, 8), (8, 64, 4), (8, 4, 4)])
def test_an_adapter_is_no_pair_and_its_zeros_are_not_identical_units(sizes: tuple[int, int, int]) -> None:
    first, hidden, last = sizes
    model = nn.Sequential(Adapted(nn.Linear(first, hidden)), nn.GELU(), Adapted(nn.Linear(hidden, last)))
    assert pairs(model, ROWS) == []
    assert alike(model, ROWS) == []
    optimizer = torch.optim.SGD([model[2].b], lr=0.1)
    model(ROWS).square().mean().backward()
    optimizer.step()
    assert not torch.equal(model[2].b[0], model[2].b[1])


@pytest.mark.parametrize(
    "divide",
    [
        lambda units: units.chunk(2, 1),
        lambda units: units.chunk(2, -1),
        lambda units: (units[:, :1], units[:, 1:]),
        lambda units: [unit[:, None] for unit in units.unbind(1)],
        lambda units: units.split([1, 1], 1),
    ],
)
def test_units_that_are_divided_behind_their_layer_are_not_identical(divide: Any) -> None:
    first, second = nn.Linear(4, 2), nn.Linear(2, 3)
    for layer in (first, second):
        nn.init.zeros_(layer.weight)
    nn.init.zeros_(first.bias)
    scale, shift = divide(first(torch.randn(8, 4)))
    joined = torch.cat([scale.exp() + shift, scale * shift], 1)
    model = nn.ModuleList([first, second])
    found = LinearLayers(lambda: [model]).find(second(joined).sum().grad_fn)
    assert found["loss/identical_units"] == 0
    alike = LinearLayers(lambda: [model]).find(second(first(torch.randn(8, 4)).tanh()).sum().grad_fn)
    assert alike["loss/identical_units"] == 1


def test_zeros_at_the_end_of_residual_branches_are_not_identical_units() -> None:
    branch = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)) for _ in range(2)]
    for each in branch:
        nn.init.zeros_(each[2].weight)
    branch[1][0].weight.data.fill_(0.5)
    model = Own(lambda x, one, two, head: head((x + one(x)) + two(x + one(x))), *branch, nn.Linear(8, 2))
    assert "parts.0.2" not in [name.partition("+")[0] for name in alike(model, ROWS)]


def test_a_residual_branch_without_an_activation_is_a_pair() -> None:
    model = Own(
        lambda x, start, one, two: (hidden := start(x).tanh()) + two(one(hidden)),
        nn.Linear(8, 8),
        nn.Linear(8, 8),
        nn.Linear(8, 8),
    )
    assert pairs(model, ROWS) == ["parts.1+parts.2"]


def test_the_size_of_the_data_that_layers_are_given() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    found = LinearLayers(lambda: [model]).find(model(100 * ROWS).mean().grad_fn)
    sizes = {name: value for name, value in found.items() if name.endswith("/given_abs_max")}
    assert sizes == {"0/given_abs_max": pytest.approx((100 * ROWS).abs().max().item())}
    normalized = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 2))
    found = LinearLayers(lambda: [normalized]).find(normalized(100 * ROWS).mean().grad_fn)
    assert not any(name.endswith("/given_abs_max") for name in found)


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


def test_a_layer_whose_weight_is_not_in_memory_is_passed_over() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    loss = model(ROWS).square().mean()
    model[2].weight.untyped_storage().resize_(0)
    assert LinearLayers(lambda: [model]).find(loss.grad_fn)["loss/identical_units"] == 0


def test_a_failure_to_find_facts_costs_the_facts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: LinearLayers, root: object) -> dict[str, float]:
        raise RuntimeError("planted")

    monkeypatch.setattr(LinearLayers, "find", fail)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters())

    def train() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            model(ROWS).square().mean().backward()
            optimizer.step()

    (document,) = watch(tmp_path, train, "checks:every=1", may_fail=True).worker_documents().values()
    assert (document.off, len(document.notes)) == (None, 1)
    assert "facts about loss calls are not captured from step 0 on: RuntimeError: planted" in document.notes[0]
    assert document.steps["train"] == 4


class Doubled(nn.Module):
    """Blocks of which some outputs are added to themselves, and others to the input of the block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks[:2]:
            x = block(x)
            x = x + x
        x = x + self.blocks[2](x)
        return x + 2 * x + torch.add(x, x, alpha=0.5)


def test_outputs_that_are_added_to_themselves_are_named() -> None:
    model = Doubled()
    found = LinearLayers(lambda: [model]).find(model(ROWS).mean().grad_fn)
    doubled = {name: value for name, value in found.items() if name.endswith("added_to_itself")}
    assert doubled == {"blocks.0.1/added_to_itself": 1.0, "blocks.1.1/added_to_itself": 1.0}
