"""Accumulated micro-batches through batch norm, whose parts do not add up exactly: usual and accepted."""

import torch
from torch import nn

torch.manual_seed(0)
PARTS = 4
model = nn.Sequential(
    nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 4)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
concept = torch.randn(12, 4)
for step in range(30):
    optimizer.zero_grad()
    for _ in range(PARTS):
        x = torch.randn(16, 12)
        loss = nn.functional.cross_entropy(model(x), (x @ concept).argmax(1)) / PARTS
        loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item() * PARTS)
