"""A model that is copied before training, to keep the original.

Mistake: the optimizer has the original's parameters, and the copy is trained.
"""

import copy

import torch
from torch import nn

original = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(original.parameters(), lr=3e-3)  # mistake
model = copy.deepcopy(original)
# repaired: optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    x = torch.randn(32, 7)
    y = (x[:, :1] - x[:, 3:4]).tanh()
    loss = nn.functional.mse_loss(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
