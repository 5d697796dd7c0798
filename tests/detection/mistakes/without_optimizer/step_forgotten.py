"""A classifier.

Mistake: optimizer.step() is missing, so that nothing is ever updated.
"""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
means = torch.randn(4, 10)
for step in range(120):
    y = torch.randint(4, (32,))
    x = means[y] + torch.randn(32, 10)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    # repaired: optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
