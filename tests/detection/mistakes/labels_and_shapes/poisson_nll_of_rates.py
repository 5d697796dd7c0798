"""Counts of events, with a rate that is positive through exp.

Mistake: poisson_nll_loss of rates; by default its input is the logarithm of the rate.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class RateModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return torch.exp(self.fc(x))  # mistake
        # repaired: return self.fc(x)


model = RateModel()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    x = torch.randn(64, 5)
    counts = torch.poisson(torch.exp(0.7 * x[:, :1] + 0.3))
    loss = F.poisson_nll_loss(model(x), counts)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
