"""A mixture of two experts with learned weights.

Mistake: a tensor with requires_grad=True is no nn.Parameter, so that the optimizer never gets it.
"""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.second = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.weights = torch.zeros(2, requires_grad=True)  # mistake
        # repaired: self.weights = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        share = torch.softmax(self.weights, dim=0)
        return share[0] * self.first(x) + share[1] * self.second(x)


model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    x = torch.randn(32, 4)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
