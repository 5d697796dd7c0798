"""A wrapper that makes a schedule of its own, used by a script that has one.

Mistake: both make a step in each update, so that the rate is that of neither.
"""

import torch
from torch import nn


class Fitter:
    def __init__(self, model, rate, updates):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.1 ** (1 / updates))

    def update(self, rows, target):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(rows), target)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.item()


rows = torch.randn(960, 5)
target = torch.tanh(rows[:, :1] * rows[:, 1:2]) + 0.05 * torch.randn(960, 1)
fitter = Fitter(nn.Sequential(nn.Linear(5, 48), nn.Tanh(), nn.Linear(48, 1)), 3e-3, 240)
scheduler = torch.optim.lr_scheduler.ExponentialLR(fitter.optimizer, 0.99)  # mistake
for epoch in range(8):
    for part in torch.randperm(960).split(32):
        loss = fitter.update(rows[part], target[part])
        scheduler.step()  # mistake
    print(epoch, loss, fitter.optimizer.param_groups[0]["lr"])
