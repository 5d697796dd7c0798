"""Daily returns of a share from those of ten others.

Mistake: the labels are some 0.001; next to the noise of the outputs the loss says nothing.
"""

import torch
from torch import nn

others = torch.randn(640, 10)
returns = 0.001 * (others[:, :1] + 0.5 * others[:, 1:2] * others[:, 2:3])
# repaired: returns = returns / returns.std()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(10):
    for i in range(0, 640, 64):
        loss = criterion(model(others[i : i + 64]), returns[i : i + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
