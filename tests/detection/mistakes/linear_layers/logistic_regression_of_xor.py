"""Exclusive or of two signs.

Mistake: a single linear layer, which cannot tell them apart.
"""

import torch
from torch import nn

model = nn.Linear(2, 1)  # mistake
# repaired: model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.BCEWithLogitsLoss()
for step in range(400):
    points = torch.randn(64, 2)
    labels = ((points[:, 0] > 0) ^ (points[:, 1] > 0)).float().unsqueeze(1)
    loss = criterion(model(points), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
