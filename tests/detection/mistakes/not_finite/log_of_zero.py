"""Cross entropy written out.

Mistake: the logarithm of a probability that may be 0.
"""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(150):
    x = 3 * torch.randn(64, 6)
    y = (x[:, :1] > 0).float()
    p = (torch.sigmoid(8 * model(x)) * 1.2 - 0.1).clamp(0, 1)  # mistake
    # repaired: p = torch.sigmoid(model(x)).clamp(1e-6, 1 - 1e-6)
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
