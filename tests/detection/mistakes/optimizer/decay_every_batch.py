"""A regression with a learning rate that falls by a tenth after each epoch.

Mistake: the scheduler is stepped in the inner loop.
"""

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import ExponentialLR

x = torch.randn(800, 7)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]
model = nn.Sequential(nn.Linear(7, 40), nn.Tanh(), nn.Linear(40, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
sched = ExponentialLR(opt, gamma=0.9)
for epoch in range(12):
    for i in range(0, 800, 25):
        pred = model(x[i : i + 25])
        loss = ((pred - y[i : i + 25]) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()  # mistake
    # repaired: sched.step()
    print(epoch, loss.item(), sched.get_last_lr()[0])
