"""A classifier whose author confused log-likelihood and its negative.

Mistake: the loss is negated, so that training makes the predictions worse.
"""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
centres = torch.randn(3, 8)
for step in range(120):
    y = torch.randint(3, (32,))
    x = centres[y] + 0.5 * torch.randn(32, 8)
    likelihood = F.nll_loss(F.log_softmax(model(x), dim=1), y)
    loss = -likelihood  # mistake
    # repaired: loss = likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
