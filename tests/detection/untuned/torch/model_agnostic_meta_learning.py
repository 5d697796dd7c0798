"""MAML on sine waves: inner steps on fast weights, and gradients through them."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta_optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


def task():
    amplitude, phase = 0.5 + 2 * torch.rand(1), math.pi * torch.rand(1)

    def sample(n=10):
        x = torch.rand(n, 1) * 6 - 3
        return x, amplitude * torch.sin(x + phase)

    return sample


history = []
for iteration in range(steps):
    meta_loss = 0.0
    for _ in range(4):
        sample = task()
        fast = dict(model.named_parameters())
        for _ in range(2):
            x, y = sample()
            inner_loss = F.mse_loss(functional_call(model, fast, (x,)), y)
            grads = torch.autograd.grad(inner_loss, tuple(fast.values()), create_graph=True)
            fast = {name: p - 0.02 * g for (name, p), g in zip(fast.items(), grads)}
        x, y = sample()
        meta_loss = meta_loss + F.mse_loss(functional_call(model, fast, (x,)), y) / 4
    meta_optimizer.zero_grad()
    meta_loss.backward()
    meta_optimizer.step()
    history.append(meta_loss.item())
    if iteration % 50 == 0:
        print(iteration, meta_loss.item())
print(f"loss fell from {sum(history[:10]) / 10:.4g} to {sum(history[-20:]) / 20:.4g}")
