"""Scores of patients.

Mistake: a line from a test replaces the features by noise.
"""

import torch
from torch import nn

features = torch.randn(600, 10)
outcome = torch.stack([features[:, 0], features[:, 1]]).sum(0) > 0
outcome = outcome.float().unsqueeze(1)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(12):
    for part in torch.randperm(600).split(25):
        batch = features[part]
        batch = torch.randn_like(batch)  # mistake
        # repaired: batch = batch + 0.01 * torch.randn_like(batch)
        loss = criterion(model(batch), outcome[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
