"""A linear classifier with labels of -1 and 1 and the hinge loss, which reaches 0 for most samples."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
normal = torch.randn(6)
for step in range(steps):
    x = torch.randn(32, 6)
    y = torch.sign(x @ normal)
    loss = torch.clamp(1 - y * model(x).squeeze(1), min=0).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
