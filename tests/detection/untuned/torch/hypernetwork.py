"""A network that writes the weights of another, which has no parameters of its own."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Hyper(nn.Module):
    def __init__(self, inner=16):
        super().__init__()
        self.inner = inner
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3 * inner + 1))
        nn.init.normal_(self.net[-1].weight, std=0.05)

    def forward(self, task, x):
        w = self.net(task)
        w1, b1, w2, b2 = w.split([self.inner, self.inner, self.inner, 1], 1)
        h = torch.tanh(x * w1[:, None] + b1[:, None])
        return (h * w2[:, None]).sum(2, keepdim=True) + b2[:, None]


hyper = Hyper()
optimizer = torch.optim.Adam(hyper.parameters(), lr=3e-3)
history = []
for step in range(steps):
    task = torch.rand(16, 2) * 2 - 1
    x = torch.rand(16, 20, 1) * 4 - 2
    y = task[:, :1, None] * x + torch.sin(2 * x) * task[:, 1:, None]
    loss = nn.functional.mse_loss(hyper(task, x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(hyper.parameters(), 1.0)
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {sum(history[:5]) / 5:.4g} to {sum(history[-10:]) / 10:.4g}")
