"""Projected gradient attacks inside each step: the network is trained on the inputs that fool it."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=2e-4)
centres = torch.randn(4, 30)
history = []
for step in range(steps):
    y = torch.randint(4, (48,))
    x = centres[y] + 1.5 * torch.randn(48, 30)
    model.eval()
    delta = torch.empty_like(x).uniform_(-0.2, 0.2)
    for _ in range(3):
        delta.requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), y), delta)
        delta = (delta.detach() + 0.1 * grad.sign()).clamp(-0.2, 0.2)
    model.train()
    loss = F.cross_entropy(model(x + delta), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
