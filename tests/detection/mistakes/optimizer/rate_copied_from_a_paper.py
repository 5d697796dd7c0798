"""Digits drawn on an 8 x 8 grid, with a learning rate from a paper about fine-tuning.

Mistake: a learning rate of 1e-8, at which nothing is learned from scratch.
"""

import torch
from torch import nn

patterns = torch.randn(5, 64)
digits = torch.randint(5, (1600,))
pixels = patterns[digits] + torch.randn(1600, 64)
model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 5))
rate = 1e-8  # mistake
# repaired: rate = 1e-3
optimizer = torch.optim.Adam(model.parameters(), lr=rate)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    order = torch.randperm(1600)
    for i in range(0, 1600, 32):
        batch = order[i : i + 32]
        optimizer.zero_grad()
        loss = criterion(model(pixels[batch]), digits[batch])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
