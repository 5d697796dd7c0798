"""Calls per hour in a call centre.

Mistake: PoissonNLLLoss takes the logarithm of the rate by default, but is given the rate.
"""

import torch
import torch.nn as nn

model = nn.Sequential(
    nn.Linear(4, 24),
    nn.ReLU(),
    nn.Linear(24, 1),
    nn.Softplus(),
)
criterion = nn.PoissonNLLLoss()  # mistake
# repaired: criterion = nn.PoissonNLLLoss(log_input=False)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(150):
    hour = torch.rand(64, 4)
    calls = torch.poisson(6 * hour[:, :1] + 2 * hour[:, 1:2])
    loss = criterion(model(hour), calls)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
