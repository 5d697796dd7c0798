"""Sharpness-aware minimization: two backward passes for each step, the second one at weights that were moved."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
teacher = torch.randn(20, 3)
x = torch.randn(1500, 20)
y = (x @ teacher + 0.5 * torch.randn(1500, 3)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(steps):
    batch = torch.randint(1500, (64,))
    F.cross_entropy(model(x[batch]), y[batch]).backward()
    with torch.no_grad():
        norm = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()
        moves = [0.05 * parameter.grad / (norm + 1e-12) for parameter in model.parameters()]
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter.add_(move)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[batch]), y[batch])
    loss.backward()
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter.sub_(move)
    optimizer.step()
    optimizer.zero_grad()
    if step % 50 == 0:
        print(step, loss.item())
