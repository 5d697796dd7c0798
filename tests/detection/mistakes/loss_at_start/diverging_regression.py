"""Linear regression by gradient descent.

Mistake: a learning rate of 2, at which each step overshoots further, until the loss is not a number.
"""

import torch
from torch import nn

x = torch.randn(400, 10)
y = x @ torch.randn(10, 1) + 0.1 * torch.randn(400, 1)
model = nn.Linear(10, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)  # mistake
# repaired: optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(15):
    for i in range(0, 400, 50):
        loss = criterion(model(x[i : i + 50]), y[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
