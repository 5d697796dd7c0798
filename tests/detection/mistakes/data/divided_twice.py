"""Grey images, scaled by a transform and once more in the loop.

Mistake: divided by 255 twice, so that all pixels are nearly 0.
"""

import torch
from torch import nn
from torch.nn import functional as F

shapes = (torch.rand(4, 1, 10, 10) < 0.4).float()
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(120):
    y = torch.randint(4, (24,))
    raw = 255 * (0.7 * shapes[y] + 0.3 * torch.rand(24, 1, 10, 10))
    x = raw / 255
    x = x / 255  # mistake
    # repaired: x = (x - 0.43) / 0.35
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
