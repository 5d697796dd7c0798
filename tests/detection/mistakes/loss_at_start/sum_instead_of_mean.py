"""A classifier of tabular data with plain SGD.

Mistake: the loss sums over the batch, at a learning rate that was chosen for the mean.
"""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6))
criterion = nn.CrossEntropyLoss(reduction="sum")  # mistake
# repaired: criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
means = torch.randn(6, 20)
for step in range(120):
    y = torch.randint(6, (128,))
    x = means[y] + torch.randn(128, 20)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
