"""Customers who leave, 1, or stay, 0.

Mistake: the Huber loss of a regression.
"""

import torch
from torch import nn

customers = torch.randn(560, 7)
leaves = (customers[:, 0] + customers[:, 1] ** 2 > 1).float()[:, None]
net = nn.Sequential(nn.Linear(7, 30), nn.ReLU(), nn.Linear(30, 1))
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
loss_fn = nn.HuberLoss()  # mistake
# repaired: loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(8):
    for part in torch.randperm(560).split(28):
        optimizer.zero_grad()
        loss = loss_fn(net(customers[part]), leaves[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
