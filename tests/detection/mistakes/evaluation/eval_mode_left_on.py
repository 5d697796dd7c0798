"""A classifier with dropout and batch normalization, validated after each epoch.

Mistake: model.eval() for the validation, and no model.train() afterwards.
"""

import torch
from torch import nn

means = torch.randn(3, 12)
y = torch.randint(3, (640,))
x = means[y] + torch.randn(640, 12)
model = nn.Sequential(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    # repaired: model.train()
    for i in range(0, 512, 32):
        optimizer.zero_grad()
        loss = criterion(model(x[i : i + 32]), y[i : i + 32])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[512:]).argmax(1) == y[512:]).float().mean()
    print(epoch, loss.item(), accuracy.item())
