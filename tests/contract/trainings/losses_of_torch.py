"""Losses of PyTorch that show every fact about a loss call, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

CAPTURE = ["checks:every=1"]


def owners() -> list[Any]:
    return [torch.optim.Optimizer]


def train() -> bytes:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reader = nn.Sequential(nn.Embedding(12, 4), nn.Linear(4, 9))
    model, x = nn.ModuleList([nn.Linear(5, 3), nn.Linear(5, 1), nn.Linear(5, 3), reader]), torch.randn(16, 5)
    tokens = torch.randint(9, (4, 13))
    one_hot = torch.eye(3)[torch.arange(16) % 3]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy(torch.sigmoid(model[0](x)), one_hot)
        loss = loss + F.mse_loss(torch.tanh(model[1](x)), x[:, :1])
        loss = loss + F.nll_loss(F.logsigmoid(model[2](x)), one_hot.argmax(1))
        weighted = F.cross_entropy(model[2](x), one_hot.argmax(1), weight=torch.tensor([1.0, 2.0, 3.0]))
        loss = loss + (1 - torch.exp(-weighted)) * weighted
        units = F.normalize(model[2](x))
        loss = loss + F.cross_entropy(units @ units.T, torch.arange(16))
        loss = loss + F.mse_loss(model[1](x), model[1](x + 1))
        loss.backward()
        F.cross_entropy(reader(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:], ignore_index=0).backward()
        optimizer.step()
    return b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
