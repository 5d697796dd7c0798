"""Regression of positive targets with ReLU at the output.

Mistake: the last bias starts at -10, as for a rare event, so that the output is 0 and has no gradient.
"""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU())
nn.init.constant_(model[2].bias, -10.0)  # mistake
# repaired: nn.init.constant_(model[2].bias, 1.0)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(100):
    x = torch.randn(32, 6)
    y = 1.5 + torch.sin(x[:, :1]) + 0.2 * x[:, 1:2].abs()
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
