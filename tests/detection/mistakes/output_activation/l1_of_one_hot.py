"""Digits with one-hot labels.

Mistake: the absolute error between softmax and one-hot labels.
"""

import torch
import torch.nn as nn
from torch.nn import functional as F

means = torch.randn(6, 20)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(200):
    digit = torch.randint(6, (40,))
    scores = model(means[digit] + torch.randn(40, 20))
    loss = F.l1_loss(scores.softmax(1), F.one_hot(digit, 6).float())  # mistake
    # repaired: loss = F.cross_entropy(scores, digit)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
