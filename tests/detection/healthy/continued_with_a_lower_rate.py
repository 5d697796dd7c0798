"""A training that is continued from its checkpoint, with the state of its optimizer and a lower rate set by hand."""

import io
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
rows = torch.randn(2048, 8)
target = torch.tanh(rows[:, :1] + rows[:, 1:2]) + 0.1 * torch.randn(2048, 1)


def make():
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    return model, torch.optim.Adam(model.parameters(), lr=3e-3)


def train(model, optimizer, count):
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count, eta_min=1e-4)
    for _ in range(count):
        part = torch.randint(2048, (32,))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows[part]), target[part]).backward()
        optimizer.step()
        scheduler.step()


model, optimizer = make()
train(model, optimizer, steps // 2)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)

file.seek(0)
saved = torch.load(file)
model, optimizer = make()
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
for group in optimizer.param_groups:
    group["lr"] = group["initial_lr"] = 1e-3
train(model, optimizer, steps - steps // 2)
