"""Four small batches for each update, in bfloat16 under autocast, with clipping."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 6))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
means = torch.randn(6, 16)
for step in range(steps):
    for micro in range(4):
        y = torch.randint(6, (12,))
        x = means[y] + 1.2 * torch.randn(12, 16)
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 50 == 0:
        print(step, 4 * loss.item())
