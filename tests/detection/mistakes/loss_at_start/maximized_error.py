"""A regression whose author wanted to maximize the agreement.

Mistake: the error is negated, and grows.
"""

import torch
from torch import nn

x = torch.randn(480, 5)
y = x[:, :1] - 0.5 * x[:, 2:3]
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(8):
    for i in range(0, 480, 32):
        error = criterion(model(x[i : i + 32]), y[i : i + 32])
        optimizer.zero_grad()
        (-error).backward()  # mistake
        # repaired: error.backward()
        optimizer.step()
    print(epoch, error.item())
