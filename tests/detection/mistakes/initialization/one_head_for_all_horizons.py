"""A recurrent model forecasts four horizons, each with a head of its own.

Mistake: the list of heads is multiplied, so that it holds one head four times.
"""

import torch
import torch.nn.functional as F
from torch import nn

HORIZONS = 4


def make_head(width):
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


class Forecaster(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.trunk = nn.GRU(1, width, batch_first=True)
        heads = [make_head(width)] * HORIZONS  # mistake
        # repaired: heads = [make_head(width) for _ in range(HORIZONS)]
        self.heads = nn.ModuleList(heads)

    def forward(self, x):
        state = self.trunk(x)[0][:, -1]
        return torch.cat([head(state) for head in self.heads], dim=1)


def waves(count):
    phase, speed = 6.28 * torch.rand(count, 1), 0.3 + 0.3 * torch.rand(count, 1)
    return torch.sin(phase + speed * torch.arange(20 + HORIZONS))


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
held_out = waves(200)
for step in range(300):
    series = waves(64)
    loss = F.mse_loss(model(series[:, :20, None]), series[:, 20:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        with torch.no_grad():
            errors = (model(held_out[:, :20, None]) - held_out[:, 20:]).pow(2).mean(0)
        print(step, loss.item(), [round(error, 3) for error in errors.tolist()])
