"""A neural differential equation of spirals, through a Runge-Kutta solver."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, y):
        return self.net(y**3)


def solve(f, y, n=8, h=0.1):
    path = [y]
    for _ in range(n):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(y)
    return torch.stack(path)


A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
func = Field()
optimizer = torch.optim.RMSprop(func.parameters(), lr=2e-3)
history = []
for step in range(steps):
    start = torch.randn(24, 2)
    start = start / start.norm(dim=1, keepdim=True) * (0.8 + torch.rand(24, 1))
    with torch.no_grad():
        true = solve(lambda y: y**3 @ A, start)
    loss = (solve(func, start) - true).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
