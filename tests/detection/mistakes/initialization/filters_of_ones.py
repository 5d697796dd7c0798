"""Bars in small images.

Mistake: all filters of both convolutions are the same.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
for layer in model:
    if isinstance(layer, nn.Conv2d):
        layer.weight.data.fill_(0.05)  # mistake
        # repaired: nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(150):
    upright = torch.randint(2, (32,))
    images = 0.3 * torch.randn(32, 1, 10, 10)
    place = torch.randint(10, (32,))
    for i in range(32):
        if upright[i]:
            images[i, 0, :, place[i]] += 1
        else:
            images[i, 0, place[i]] += 1
    loss = F.cross_entropy(model(images), upright)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
