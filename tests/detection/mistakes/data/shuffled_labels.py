"""A classifier of four classes.

Mistake: features and labels are shuffled apart, so that there is nothing to learn.
"""

import torch
from torch import nn

means = 1.5 * torch.randn(4, 10)
y = torch.randint(4, (2000,))
x = means[y] + torch.randn(2000, 10)
order = torch.randperm(2000)
x = x[order]
y = y[torch.randperm(2000)]  # mistake
# repaired: y = y[order]
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(6):
    for i in range(0, 2000, 40):
        loss = criterion(model(x[i : i + 40]), y[i : i + 40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
