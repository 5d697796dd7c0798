"""Readings of a barometer and its neighbours, in pascal.

Mistake: all inputs are around 101,000 and vary by a few hundred.
"""

import torch
from torch import nn

pressure = 101_000 + 300 * torch.randn(600, 5)
rain = (pressure[:, :1] - pressure[:, 4:5]) / 400
inputs = pressure  # mistake
# repaired: inputs = (pressure - pressure.mean(0)) / pressure.std(0)
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    for i in range(0, 600, 50):
        loss = nn.functional.mse_loss(model(inputs[i : i + 50]), rain[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
