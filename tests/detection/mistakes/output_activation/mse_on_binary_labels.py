"""A classifier of two classes.

Mistake: mean squared error of a sigmoid on labels that are 0 and 1, where binary cross entropy belongs.
"""

import torch
from torch import nn

x = torch.randn(640, 12)
y = (x[:, :3].sum(1) + 0.2 * torch.randn(640) > 0).float()

model = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 1), nn.Sigmoid())
criterion = nn.MSELoss()  # mistake
# repaired: criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(10):
    for i in range(0, 640, 64):
        optimizer.zero_grad()
        loss = criterion(model(x[i : i + 64]).squeeze(1), y[i : i + 64])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
