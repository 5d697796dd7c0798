"""Regression with a squared error written out.

Mistake: (N, 1) minus (N,) is (N, N), without a word from anyone.
"""

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


X = torch.rand(400, 3) * 4 - 2
target = torch.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2
model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(10):
    for i in range(0, 400, 40):
        pred = model(X[i : i + 40])
        loss = ((pred - target[i : i + 40]) ** 2).mean()  # mistake
        # repaired: loss = ((pred.squeeze(1) - target[i : i + 40]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
