"""FLOPs of a step, counted from shapes, against PyTorch's own counter, which is intrusive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

import leadline
import leadline.torch


class AttentionByHand(nn.Module):
    """Attention written in basic operations."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 48, bias=False)
        self.out = nn.Linear(16, 16)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(inputs).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / 4, dim=-1)
        mixed = torch.einsum("bqk,bkd->bqd", weights, value)
        return self.out(mixed + torch.bmm(weights, value))


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depth = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 3, 2, stride=2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.depth(torch.relu(self.down(inputs)))))


class Products(nn.Module):
    """Other forms of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 5)), nn.Parameter(torch.randn(5))
        self.batch = nn.Parameter(torch.randn(4, 5, 3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first = torch.addmm(self.bias, inputs, self.weight)
        return (
            torch.matmul(first.expand(4, *first.shape).contiguous(), self.batch) + torch.mm(inputs, self.weight).sum()
        )


def partly_frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 2))
    model[0].requires_grad_(False)
    return model


# PyTorch's counter omits the attention kernel of CPUs (avoided here by dropout), and counts the backward pass of
# grouped convolutions as if they were not grouped; both cases are left out.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)), (7, 6)),
    "partly frozen": (partly_frozen, (7, 6)),
    "convolutions": (Transposed, (2, 3, 16, 16)),
    "sequence": (lambda: nn.Sequential(nn.Conv1d(4, 8, 5, dilation=2), nn.Flatten(), nn.Linear(8 * 12, 3)), (2, 4, 20)),
    "attention written out": (AttentionByHand, (3, 10, 16)),
    "products": (Products, (7, 6)),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (3, 10, 16)),
    "attention of several heads": (lambda: nn.MultiheadAttention(16, 4), (10, 3, 16)),
}


def compute_loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    out = model(inputs, inputs, inputs)[0] if isinstance(model, nn.MultiheadAttention) else model(inputs)
    assert isinstance(out, torch.Tensor)
    return out.pow(2).mean()


def facts_of(folder: Path, train: Callable[[], object]) -> dict[str, int]:
    hook = leadline.torch.Hook(out=str(folder), name="run")
    run = hook.run
    try:
        train()
    finally:
        hook.close()
    (document,) = leadline.open_run(run).worker_documents().values()
    assert document.off is None
    return dict(document.facts)


@pytest.mark.parametrize("case", CASES)
def test_counts_equal_those_of_pytorch(tmp_path: Path, case: str) -> None:
    make, shape = CASES[case]
    torch.manual_seed(0)
    model, inputs = make(), torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        compute_loss(model, inputs).backward()
    expected = counter.get_total_flops()
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.1)

    def train() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            compute_loss(model, inputs).backward()
            optimizer.step()

    flops = facts_of(tmp_path, train)["flops_per_step"]
    assert expected > 0
    assert flops == pytest.approx(expected, rel=0.02)


def test_all_micro_batches_are_counted(tmp_path: Path) -> None:
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            for _ in range(5):
                model(torch.ones(3, 6)).sum().backward()
            optimizer.step()

    assert facts_of(tmp_path, train)["flops_per_step"] == 5 * 2 * (2 * 3 * 6 * 2)


def test_grouped_convolutions(tmp_path: Path) -> None:
    model = nn.Conv2d(8, 8, 3, padding=1, groups=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            model(torch.ones(2, 8, 6, 6)).sum().backward()
            optimizer.step()

    one_product = 2 * (2 * 8 * 6 * 6) * (2 * 3 * 3)
    assert facts_of(tmp_path, train)["flops_per_step"] == 2 * one_product


def test_functions_without_modules(tmp_path: Path) -> None:
    query = nn.Parameter(torch.randn(2, 4, 10, 8))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = query

        def forward(self, key: torch.Tensor) -> torch.Tensor:
            return functional.scaled_dot_product_attention(self.query, key, key)

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            model(torch.ones(2, 4, 6, 8)).sum().backward()
            optimizer.step()

    product = 2 * (2 * 4 * 10) * 6 * 8
    assert facts_of(tmp_path, train)["flops_per_step"] == 2 * product + 2 * product


def test_a_model_without_products_has_no_count(tmp_path: Path) -> None:
    model = nn.LayerNorm(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    assert "flops_per_step" not in facts_of(tmp_path, train)
