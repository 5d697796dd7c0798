"""A small network, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module

CAPTURE = [
    "all:every=1",
    "layers:every=1",
    "labels:every=1",
    "predictions:every=1",
    "losses:every=1,modes=eval",
    "optimizer_variables:every=1",
]


def owners() -> list[Any]:
    return [
        torch.Tensor,
        torch.optim.Optimizer,
        nn.Module,
        nn.CrossEntropyLoss,
        module,
        torch.autograd,
        torch.nn.functional,
        torch.nn.utils,
        torch.utils.data.DataLoader,
        torch.amp.GradScaler,
    ]


def train() -> bytes:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    samples, labels = torch.randn(64, 5), torch.randint(0, 3, (64,))
    for _ in range(6):
        optimizer.zero_grad()
        criterion(model(samples), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for at in (0, 32):
            criterion(model(samples[at : at + 32]), labels[at : at + 32])
    values = b"".join(each.detach().numpy().tobytes() for each in model.state_dict().values())
    return values + torch.random.get_rng_state().numpy().tobytes()
