"""Trainings with one step within which the script does the same thing again and again, one process per kind.

Usage: long_steps.py FOLDER PASSES KIND…; writes ``FOLDER/<kind>.json`` with the bytes by which the process has grown at
most in that step.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch
from forks import fork_for_each
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import update_bn

FOLDER, PASSES = Path(sys.argv[1]), int(sys.argv[2])
KIND = fork_for_each(sys.argv[3:])
ROWS, WIDTH, STEPS, LONG_STEP = 500, 4000, 24, 20
torch.set_num_threads(1)
torch.manual_seed(0)
warnings.simplefilter("ignore", DeprecationWarning)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 4)
        self.times = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros(len(x), 8)
        for _ in range(self.times):
            hidden = self.cell(x, hidden)
        return self.head(hidden)


middle = {"update_bn": nn.BatchNorm1d(WIDTH), "dropout": nn.Dropout(0.5)}.get(KIND, nn.Identity())
model = (
    Recurrent() if KIND == "recurrent" else nn.Sequential(nn.Linear(4, WIDTH), middle, nn.ReLU(), nn.Linear(WIDTH, 4))
)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
LABELS = torch.zeros(ROWS, dtype=torch.long)


def batch() -> torch.Tensor:
    return torch.randn(ROWS, 4)


def loss() -> torch.Tensor:
    return F.cross_entropy(model(batch()), LABELS)


def evaluate() -> None:
    with torch.no_grad():
        for _ in range(PASSES):
            loss()


def act() -> None:
    with torch.no_grad():
        for _ in range(PASSES):
            F.softmax(model(batch()), 1).multinomial(1)


def infer() -> None:
    model.eval()
    with torch.inference_mode():
        for _ in range(PASSES):
            loss()
    model.train()


def discard() -> None:
    for _ in range(PASSES):
        loss()


def sum_small_losses() -> None:
    outputs = model(batch())
    total = sum(F.mse_loss(outputs[at % ROWS], torch.zeros(4)) for at in range(PASSES))
    total.backward()


def accumulate() -> None:
    for _ in range(PASSES):
        (loss() / PASSES).backward()


def trace() -> None:
    for _ in range(max(5, PASSES // 50)):
        torch.jit.trace(model, (batch(),))
    torch.export.export(model, (batch(),))


def unroll() -> None:
    model.times = PASSES
    model(batch()[:2]).sum().backward()
    model.times = 3


KINDS = {
    "no_grad": evaluate,
    "rollouts": act,
    "update_bn": lambda: update_bn((batch() for _ in range(PASSES)), model),
    "dropout": evaluate,
    "inference": infer,
    "discarded": discard,
    "small_losses": sum_small_losses,
    "micro_batches": accumulate,
    "traced": trace,
    "recurrent": unroll,
}


def peak_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


grown = 0
for step in range(STEPS):
    if step == LONG_STEP:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = peak_bytes()
        KINDS[KIND]()
        grown = peak_bytes() - before
    loss().backward()
    optimizer.step()
    optimizer.zero_grad()
FOLDER.joinpath(f"{KIND}.json").write_text(
    json.dumps({"grown": grown, "sum": sum(p.double().sum().item() for p in model.parameters())})
)
