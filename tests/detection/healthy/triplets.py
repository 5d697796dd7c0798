"""Metric learning with a margin: many triplets, and later most, have a loss of exactly 0."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
criterion = nn.TripletMarginLoss(margin=1.0)
optimizer = torch.optim.Adam(embed.parameters(), lr=1e-3)
centres = 0.6 * torch.randn(8, 10)
for step in range(steps):
    a = torch.randint(8, (64,))
    n = (a + torch.randint(1, 8, (64,))) % 8
    anchor, positive, negative = (centres[c] + 0.5 * torch.randn(64, 10) for c in (a, a, n))
    loss = criterion(embed(anchor), embed(positive), embed(negative))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
