"""A classifier that was overfitted, so that its author turned the regularization up.

Mistake: a weight decay of 10, which takes the weights to zero.
"""

import torch
from torch import nn

centres = 1.5 * torch.randn(4, 12)
y = torch.randint(4, (960,))
x = centres[y] + torch.randn(960, 12)
model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=10.0)  # mistake
# repaired: optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(10):
    for part in torch.randperm(960).split(32):
        loss = criterion(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
