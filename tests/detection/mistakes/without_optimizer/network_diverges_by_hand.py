"""Regression with an nn.Module and updates by hand, as in pytorch/examples.

Mistake: the learning rate is 10, where 0.1 would do.
"""

import torch
from torch import nn
from torch.nn import functional as F

fc = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
weights = torch.randn(4, 1)
rate = 10.0  # mistake
# repaired: rate = 0.1
for batch_idx in range(100):
    batch_x = torch.randn(32, 4)
    batch_y = batch_x.mm(weights) + 0.5
    fc.zero_grad()
    output = F.mse_loss(fc(batch_x), batch_y)
    loss = output.item()
    output.backward()
    for param in fc.parameters():
        param.data.add_(-rate * param.grad)
    if batch_idx % 20 == 0:
        print(batch_idx, loss)
