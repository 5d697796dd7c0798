"""Raw columns of a table, age to income, which a first BatchNorm layer normalizes."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(steps):
    z = torch.randn(48, 4)
    x = z * torch.tensor([12.0, 20_000.0, 0.01, 3.0]) + torch.tensor([45.0, 60_000.0, 0.05, -200.0])
    y = (z[:, :1] + z[:, 1:2] * z[:, 2:3] > 0).float()
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
