"""Widths of petals.

Mistake: SGD with a rate of 20; the first updates leave no ReLU alive.
"""

import torch
import torch.nn as nn

flowers = torch.randn(400, 4).abs() + 0.5
width = (0.4 * flowers[:, :1] + 0.2 * flowers[:, 1:2] ** 2) / 2
model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
rate = 20.0  # mistake
# repaired: rate = 0.05
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
for epoch in range(12):
    for i in range(0, 400, 20):
        loss = nn.functional.l1_loss(model(flowers[i : i + 20]), width[i : i + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
